"""Whether and when to try again. A pure function of the attempt and the error; no clock, no sleep.

Invariant: a request that may have been received is sent again only if receiving it twice does no
harm (`repeatable`), or if the server itself refused it (429, 503).
"""

from dataclasses import dataclass

from inferscale.errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    QuotaExceededError,
    RateLimitError,
    UnavailableError,
)


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with jitter, within what the server asks for.

    Attributes:
        max_retries: attempts after the first one.
        first_delay_s, max_delay_s: back-off doubles from the first to the second.
        max_retry_after_s: a longer `Retry-After` is not waited for; it raises at once.
    """

    max_retries: int = 2
    first_delay_s: float = 0.25
    max_delay_s: float = 8.0
    max_retry_after_s: float = 30.0

    def delay_s(
        self, attempt: int, error: APIError, *, repeatable: bool, jitter: float
    ) -> float | None:
        """Seconds to wait before the next attempt, or None to give up.

        Args:
            attempt: 0 for the first attempt.
            error: why it failed.
            repeatable: receiving the request twice does no harm.
            jitter: in [0, 1); spreads clients that failed together over half the delay.
        """
        if attempt >= self.max_retries or not _is_worth_retrying(error, repeatable=repeatable):
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.max_retry_after_s else None
        # 2.0**attempt overflows beyond 1023; the cap is reached long before that.
        delay = min(self.max_delay_s, self.first_delay_s * 2.0 ** min(attempt, 32))
        return delay * (0.5 + 0.5 * jitter)


def _is_worth_retrying(error: APIError, *, repeatable: bool) -> bool:
    if isinstance(error, RateLimitError | UnavailableError):
        return not isinstance(error, QuotaExceededError)
    if not isinstance(error, APIConnectionError):
        return False
    if not error.maybe_received:
        return True
    # A timeout after sending is final: the caller said how long to wait, and would wait thrice.
    return repeatable and not isinstance(error, APITimeoutError)
