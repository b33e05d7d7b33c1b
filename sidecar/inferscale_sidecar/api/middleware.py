"""What surrounds every request: its id, its limits, its metrics, and the last resort for errors.

Pure ASGI: messages pass through one by one, so a stream is never buffered. Invariant: every request
gets exactly one response with an `x-request-id`, also when the code behind it raises.
"""

import logging
import re
import secrets
import sys
import time
from contextlib import ExitStack
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inferscale_sidecar.api.problem import from_http, internal_problem
from inferscale_sidecar.metrics import Metrics

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "x-request-id"
DEFAULT_MAX_BODY_BYTES = 16 * 2**20
# What is longer than one request may be, and limits itself while it reads.
_STREAMED = frozenset({"/v1/import"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Boundary:
    """The outermost of our layers.

    Args:
        app: what it surrounds.
        metrics: where requests are counted.
        max_body_bytes: a larger body is refused with 413, whether its length is declared or not.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._max_body_bytes)
        started = time.perf_counter()
        try:
            await exchange.run(self._app)
        finally:
            self._record(scope, exchange.status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        # The template, never the path: ids must not become labels.
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.http_requests.labels(method, route, str(status)).inc()
        self._metrics.http_duration.labels(method, route).observe(seconds)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_body_bytes: int) -> None:
        self.status = 499  # what is recorded if the client leaves before there is an answer
        self._scope = scope
        self._receive_outer = receive
        self._send_outer = send
        self._max_body_bytes = max_body_bytes if scope["path"] not in _STREAMED else sys.maxsize
        self._received_bytes = 0
        headers = Headers(scope=scope)
        self._id = _request_id(headers)
        self._declared = headers.get("content-length", "")
        self._has_started = False
        # For the code inside: headers of the response, and what to do when it has ended.
        self._headers: dict[str, str] = {REQUEST_ID_HEADER: self._id}
        self._ending = ExitStack()
        scope.setdefault("state", {}).update(
            request_id=self._id, response_headers=self._headers, ending=self._ending
        )

    async def run(self, app: ASGIApp) -> None:
        try:
            if self._declared.isdigit() and int(self._declared) > self._max_body_bytes:
                await self._answer(from_http(self._too_large()))
                return
            with self._ending:
                await app(self._scope, self._receive, self._send)
        except Exception as error:
            logger.error("request %s failed", self._id, exc_info=error)
            if self._has_started:
                raise  # too late for an answer; the server cuts the connection
            await self._answer(internal_problem())

    async def _answer(self, response: Any) -> None:
        await response(self._scope, self._receive_outer, self._send)

    async def _receive(self) -> Message:
        message = await self._receive_outer()
        if message["type"] == "http.request":
            self._received_bytes += len(message.get("body", b""))
            if self._received_bytes > self._max_body_bytes:
                raise self._too_large()
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started = True
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers[name] = value
        await self._send_outer(message)

    def _too_large(self) -> HTTPException:
        return HTTPException(
            413,
            f"the body is larger than {self._max_body_bytes} bytes; send it in several requests",
        )


def _request_id(headers: Headers) -> str:
    given = headers.get(REQUEST_ID_HEADER, "")
    return given if _ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
