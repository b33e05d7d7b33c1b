"""Every error the SDK raises. All of them say what happened, the value, and what to do about it.

InferScaleError
├─ InvalidArgumentError       the call cannot be honoured; nothing was sent (also a ValueError)
├─ NotReadyError              `wait_until_ready` ran out of time (also a TimeoutError)
└─ APIError                   something was sent, or should have been
   ├─ APIConnectionError      no connection, or it broke before the answer was complete
   │  └─ APITimeoutError      no answer within `timeout_s` (also a TimeoutError)
   ├─ APIResponseError        an answer that is not one of an InferScale sidecar
   ├─ StreamError             the server reported an error in the middle of a stream
   └─ APIStatusError          the sidecar said no
      ├─ InvalidRequestError    400, 422
      ├─ AuthenticationError    401
      ├─ PermissionDeniedError  403
      ├─ NotFoundError          404   unknown, foreign or expired: the sidecar does not tell which
      ├─ ConflictError          409
      ├─ TooLargeError          413
      ├─ RateLimitError         429   see `retry_after_s`
      │  └─ QuotaExceededError  429   no room left: waiting alone does not help
      ├─ UnsupportedError       501
      ├─ UnavailableError       503   see `retry_after_s`
      └─ ServerError            any other 5xx

Owns the tree and its remedies; which status or which failure of the HTTP library becomes which
class is said in `_status` and `_transport`.
"""

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIResponseError",
    "APIStatusError",
    "APITimeoutError",
    "AuthenticationError",
    "ConflictError",
    "InferScaleError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "NotFoundError",
    "NotReadyError",
    "PermissionDeniedError",
    "QuotaExceededError",
    "RateLimitError",
    "ServerError",
    "StreamError",
    "TooLargeError",
    "UnavailableError",
    "UnsupportedError",
]


class InferScaleError(Exception):
    """Base of all errors of this package.

    Attributes:
        message: what happened, without the remedy. `str(error)` holds both.
        remedy: what to do about it, or "".
        status_code: HTTP status, or None if there was no answer.
        code: the sidecar's stable error code, or None.
        param: the field of the request that was wrong, or None.
        request_id: names the request in the sidecar's logs, or None.
        retry_after_s: seconds after which the sidecar asked to be tried again, or None.
    """

    remedy: str = ""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        status_code: int | None = None,
        code: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.message = message
        self.remedy = type(self).remedy if remedy is None else remedy
        self.status_code = status_code
        self.code = code
        self.param = param
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def __str__(self) -> str:
        facts = [
            f"{name} {value}"
            for name, value in (
                ("status", self.status_code),
                ("code", self.code),
                ("param", self.param),
                ("request", self.request_id),
            )
            if value is not None
        ]
        cause = f"{self.message.rstrip('.')} ({', '.join(facts)})." if facts else self.message
        return f"{cause} {self.remedy}".rstrip()


class InvalidArgumentError(InferScaleError, ValueError):
    """The arguments cannot be honoured. Nothing was sent."""


class NotReadyError(InferScaleError, TimeoutError):
    """The sidecar, or the builds that were waited for, did not get ready in time."""

    remedy = "Wait longer (timeout_s), or see why with `inferscale-sidecar status`."


class APIError(InferScaleError):
    """Base of everything that can go wrong once a request is on its way.

    `maybe_received` is False only if the request certainly never reached the sidecar.
    """

    maybe_received: bool = True


class APIConnectionError(APIError):
    """There is no connection, or it broke before the answer was complete."""

    remedy = (
        "Is the sidecar running there? Start it with `inferscale-sidecar start`, or point base_url "
        "(environment variable INFERSCALE_BASE_URL) at it."
    )


class APITimeoutError(APIConnectionError, TimeoutError):
    """No answer within the time allowed."""

    remedy = "Allow more time with timeout_s, or see with `inferscale-sidecar status` what it does."


class APIResponseError(APIError):
    """The answer is not one an InferScale sidecar of this version gives."""

    remedy = "Check that base_url is a sidecar's address, and that its version fits this SDK's."


class StreamError(APIError):
    """The server reported an error, or stopped, in the middle of a stream."""

    remedy = "What was received so far is incomplete; send the request again."


class APIStatusError(APIError):
    """The sidecar answered with an error status."""


class InvalidRequestError(APIStatusError):
    """400 or 422: the request is wrong, and sending it again will not help."""


class AuthenticationError(APIStatusError):
    """401: no API key, or one that the sidecar does not know."""

    remedy = "Pass api_key, or set the environment variable INFERSCALE_API_KEY."


class PermissionDeniedError(APIStatusError):
    """403: the API key may not do this."""

    remedy = "Use an API key that has this permission."


class NotFoundError(APIStatusError):
    """404: unknown, someone else's, or expired. The sidecar deliberately does not tell which."""

    remedy = "Check the id and the API key; an expired handle is renewed by calling recall() again."


class ConflictError(APIStatusError):
    """409: the present state does not allow it."""


class TooLargeError(APIStatusError):
    """413: over a documented limit."""

    remedy = "Split it into several requests."


class RateLimitError(APIStatusError):
    """429: too many requests. The SDK has already retried `max_retries` times."""

    remedy = "Slow down, or raise max_retries."


class QuotaExceededError(RateLimitError):
    """429: the tenant has no room left for more memories or text. Never retried."""

    remedy = "Delete what is not needed, or have the limit raised."


class UnsupportedError(APIStatusError):
    """501: this set-up of the sidecar does not offer it."""

    remedy = "`inferscale-sidecar doctor` says what this set-up offers."


class UnavailableError(APIStatusError):
    """503: the engine is down, starting or draining. Retried `max_retries` times already."""

    remedy = "Call wait_until_ready() first, or raise max_retries."


class ServerError(APIStatusError):
    """Any other 5xx: a fault of the sidecar, or of a proxy in front of it."""

    remedy = "Look for the request in the sidecar's log; if it happens again, report it."
