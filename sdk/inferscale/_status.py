"""Answers that are not results → errors: which status is which class, in one table."""

import math
from typing import Any

import httpx

from inferscale.errors import (
    APIError,
    APIResponseError,
    APIStatusError,
    AuthenticationError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from inferscale.protocol.chat import REPORT_HEADER

ERROR_BY_STATUS: dict[int, type[APIStatusError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    422: InvalidRequestError,
    429: RateLimitError,
    501: UnsupportedError,
    503: UnavailableError,
}
ERROR_BY_CODE: dict[tuple[int, str], type[APIStatusError]] = {
    (429, "quota_exceeded"): QuotaExceededError,
}
"""Kinds of one status that the sidecar's code tells apart."""
SAYS_WHAT_TO_DO = frozenset(
    {"block_read_only", "block_limit_exceeded", "block_version_conflict", "max_tokens_too_small"}
)
"""Codes whose message holds the remedy; their status has another one."""
_MAX_QUOTED_CHARS = 200


def error_from_response(response: httpx.Response) -> APIError | None:
    """The error that `response` is, or None for a 2xx. Its body must have been read unless 2xx."""
    status = response.status_code
    if response.is_success:
        return None
    if status < 400:
        return APIResponseError(
            f"{response.url.copy_with(query=None)} answered {status}, a redirection to "
            f"{response.headers.get('location', 'nowhere')!r}.",
            status_code=status,
        )
    fallback = ServerError if status >= 500 else APIStatusError
    problem = _problem(response)
    code = _text(problem.get("code"))
    kind = ERROR_BY_CODE.get((status, code or "")) or ERROR_BY_STATUS.get(status, fallback)
    return kind(
        problem.get("message") or _describe(response),
        remedy="" if code in SAYS_WHAT_TO_DO else None,
        status_code=status,
        code=code,
        param=_text(problem.get("param")),
        request_id=request_id_of(response),
        retry_after_s=_retry_after_s(response),
    )


def request_id_of(response: httpx.Response) -> str | None:
    """The id under which the sidecar logs the request, if it says."""
    found: str | None = response.headers.get(REPORT_HEADER) or response.headers.get("x-request-id")
    return found


def _problem(response: httpx.Response) -> dict[str, Any]:
    """The `error` object of an OpenAI-shaped body; empty if the body is something else."""
    try:
        body = response.json()
    except ValueError:
        return {}
    problem = body.get("error") if isinstance(body, dict) else None
    return problem if isinstance(problem, dict) else {}


def _describe(response: httpx.Response) -> str:
    text = " ".join(response.text.split())[:_MAX_QUOTED_CHARS]
    said = f"and said {text!r}" if text else "with an empty body"
    return (
        f"{response.request.method} {response.url.path} was answered {response.status_code} {said}."
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _retry_after_s(response: httpx.Response) -> float | None:
    """`Retry-After` in seconds. Its date form is ignored: it would need this machine's clock."""
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
