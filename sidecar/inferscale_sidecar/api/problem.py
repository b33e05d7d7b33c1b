"""Every error as a problem (RFC 9457) that is OpenAI error JSON, too. Owns the one table from
error to status.

Invariant: no answer holds a value that the client sent, beyond short names of fields, ids and
operators, and none holds a traceback.
"""

import json
import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from inferscale_sidecar import errors
from inferscale_sidecar.api.limits import PROBLEM_TYPE, refusal_fields

logger = logging.getLogger(__name__)

STATUS: dict[type[errors.SidecarError], tuple[int, str]] = {
    errors.InvalidInput: (400, "invalid_request_error"),
    errors.Unauthenticated: (401, "authentication_error"),
    errors.PermissionDenied: (403, "permission_error"),
    errors.NotFound: (404, "not_found_error"),
    errors.Conflict: (409, "conflict_error"),
    errors.TooLarge: (413, "invalid_request_error"),
    errors.RateLimited: (429, "rate_limit_error"),
    errors.QuotaExceeded: (429, "insufficient_quota"),
    errors.Unsupported: (501, "unsupported_error"),
    errors.Unavailable: (503, "unavailable_error"),
    errors.ConfigError: (500, "server_error"),
    errors.SidecarError: (500, "server_error"),
}
"""Domain error → HTTP status and OpenAI error type. The most specific class wins."""

MEDIA_TYPE = "application/problem+json"

_CODES = {
    400: ("invalid_request", "invalid_request_error"),
    404: ("route_not_found", "not_found_error"),
    405: ("method_not_allowed", "invalid_request_error"),
    413: ("too_large", "invalid_request_error"),
}
_INTERNAL = "the server failed; the log has the cause under this request's id"
_MAX_PROBLEMS = 3
_MAX_NAME_CHARS = 64


def problem(
    status: int,
    message: str,
    *,
    code: str,
    kind: str,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Response:
    """An error response. ASCII JSON, so that no text whatever can break its encoding.

    Args:
        more: members beside the standard ones; may name another problem type.
    """
    error = {"message": message, "type": kind, "param": param, "code": code}
    title = HTTPStatus(status).phrase
    shown = {"type": "about:blank", "title": title, "status": status, "detail": message}
    body = json.dumps({**shown, **(more or {}), "error": error}, ensure_ascii=True)
    return Response(body, status, headers, media_type=MEDIA_TYPE)


def internal_problem() -> Response:
    """The answer to an exception that nobody foresaw; it says nothing about the inside."""
    return problem(500, _INTERNAL, code="internal_error", kind="server_error")


def from_domain(error: errors.SidecarError) -> Response:
    """The answer to an error of ours."""
    status, kind = next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)
    if status >= 500 and not isinstance(error, errors.Unsupported | errors.Unavailable):
        logger.error("internal error: %s", error.message, exc_info=error)
        return internal_problem()
    headers: dict[str, str] = {}
    more: dict[str, Any] = {}
    if isinstance(error, errors.Unavailable):
        headers["retry-after"] = str(math.ceil(error.retry_after_s))
    if isinstance(error, errors.Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, errors.RateLimited | errors.QuotaExceeded):
        headers |= refusal_fields(error)
        more = {"type": PROBLEM_TYPE, "title": "A limit of the tenant is reached"}
        more |= {"violated-policies": [error.limit], "limit": error.limit, "value": error.value}
    return problem(
        status,
        error.message,
        code=error.code,
        kind=kind,
        param=error.param,
        headers=headers,
        more=more,
    )


def from_validation(error: RequestValidationError) -> Response:
    """What is wrong with a request, by field, without the values."""
    found = error.errors()
    lines = [f"{_field(each)}: {_reason(each)}" for each in found[:_MAX_PROBLEMS]]
    if len(found) > _MAX_PROBLEMS:
        lines.append(f"and {len(found) - _MAX_PROBLEMS} more")
    param = _field(found[0]) if found else None
    return problem(
        400, "; ".join(lines), code="invalid_request", kind="invalid_request_error", param=param
    )


def from_http(error: HTTPException) -> Response:
    """The framework's own refusals: no such route, wrong method, body too large."""
    status = error.status_code
    code, kind = _CODES.get(status, ("http_error", "invalid_request_error"))
    return problem(status, str(error.detail), code=code, kind=kind, headers=error.headers)


def install(app: FastAPI) -> None:
    """Make `app` answer all errors from here."""

    async def on_domain(_: Request, error: Exception) -> Response:
        assert isinstance(error, errors.SidecarError)
        return from_domain(error)

    async def on_validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return from_validation(error)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code in (404, 405) and error.detail in ("Not Found", "Method Not Allowed"):
            path = ascii(request.url.path[:_MAX_NAME_CHARS])[1:-1]
            what = f"{error.detail}: {request.method[:8]} {path}"
            error = HTTPException(error.status_code, what, error.headers)
        return from_http(error)

    app.add_exception_handler(errors.SidecarError, on_domain)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)


def _field(found: Mapping[str, Any]) -> str:
    """Dotted name of the field, e.g. `messages.3.content`."""
    parts = [str(part) for part in found.get("loc", ())]
    if len(parts) > 1 and parts[0] in ("body", "query", "path", "header"):
        parts = parts[1:]
    name = ascii(".".join(parts))[1:-1] or "body"
    return name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 3] + "..."


def _reason(found: Mapping[str, Any]) -> str:
    if found.get("type") == "json_invalid":
        return "the body is not valid JSON"
    return str(found.get("msg", "invalid value")).removeprefix("Value error, ")
