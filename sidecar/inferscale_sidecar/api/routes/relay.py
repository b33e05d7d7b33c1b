"""Carries HTTP answers from the engine to the client: headers, bytes, and the client's hanging up.

Owns which headers cross and how a broken exchange ends. Knows neither memory nor routes. Invariant:
bytes go out as they come in, and when the client leaves, the engine's request is aborted.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from inferscale_sidecar.engine.base import EngineResponse
from inferscale_sidecar.errors import EngineUnavailable, InvalidInput

CLIENT_CLOSED_REQUEST = 499

T = TypeVar("T")

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_TO_ENGINE = _HOP_BY_HOP | {
    "host",
    "content-length",
    "authorization",
    "x-api-key",
    "api-key",
    "cookie",
    "expect",
    "forwarded",
}
_NOT_TO_CLIENT = _HOP_BY_HOP | {"date", "server", "set-cookie"}


class ClientGone(Exception):
    """The client hung up; nobody reads the answer."""


def to_engine(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The client's headers that vLLM may see: no credentials, nothing of one connection."""
    return {
        name: value
        for name, value in ((n.lower(), v) for n, v in headers)
        if name not in _NOT_TO_ENGINE and not name.startswith(("x-inferscale-", "x-forwarded-"))
    }


def to_client(headers: Iterable[tuple[str, str]], *, rewritten: bool = False) -> dict[str, str]:
    """The engine's headers that the client may see. `rewritten`: the body's length changed."""
    dropped = _NOT_TO_CLIENT | ({"content-length", "content-encoding"} if rewritten else set())
    return {name: value for name, value in headers if name.lower() not in dropped}


async def json_object(request: Request) -> dict[str, Any]:
    """The request's body.

    Raises:
        InvalidInput: it is not a JSON object.
    """
    raw = await request.body()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidInput(f"the body must be a JSON object, not {type(body).__name__}")
    return body


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; the work is cancelled if the client hangs up first.

    Raises:
        ClientGone: it did.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.create_task(_hang_up(request.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        for pending in (task, watch):
            pending.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class RelayResponse(Response):
    """Streams the engine's answer to the client, chunk by chunk.

    Args:
        upstream: the engine's answer; closed in any case.
        headers: what the client sees.
        on_end: called at the end, with the clock (`time.perf_counter`) at the first chunk, and the
            bytes that were kept; not called if there was none.
        keep_bytes: keep the answer's bytes for `on_end`, unless they are more than so many.
    """

    def __init__(
        self,
        upstream: EngineResponse,
        headers: Mapping[str, str],
        *,
        on_end: Callable[[float, bytes], None] = lambda first, kept: None,
        keep_bytes: int = 0,
    ) -> None:
        self.status_code = upstream.status
        self.background = None
        self.init_headers(headers)
        self._upstream, self._on_end = upstream, on_end
        self._first: float | None = None
        self._keep_bytes, self._kept = keep_bytes, bytearray()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump = asyncio.create_task(self._pump(send))
        watch = asyncio.create_task(_hang_up(receive))
        try:
            await asyncio.wait({pump, watch}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        finally:
            for task in (pump, watch):
                task.cancel()
            await asyncio.gather(pump, watch, return_exceptions=True)
            await self._upstream.aclose()
            if self._first is not None:
                self._on_end(self._first, bytes(self._kept))

    async def _pump(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        async for chunk in self._chunks():
            if self._first is None:
                self._first = time.perf_counter()
            self._keep(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        with suppress(OSError):  # the client may have left with its last chunk
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _keep(self, chunk: bytes) -> None:
        if len(self._kept) + len(chunk) > self._keep_bytes:
            self._keep_bytes = 0
            self._kept.clear()
        else:
            self._kept += chunk

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._upstream.chunks():
                yield chunk
        except EngineUnavailable as error:
            if not self.headers.get("content-type", "").startswith("text/event-stream"):
                raise
            yield _error_event(error)


def _error_event(error: EngineUnavailable) -> bytes:
    """What vLLM sends when a stream fails: the status line is long gone."""
    problem = {"message": error.message, "type": "engine_error", "param": None, "code": error.code}
    return f"\n\ndata: {json.dumps({'error': problem})}\n\ndata: [DONE]\n\n".encode()
