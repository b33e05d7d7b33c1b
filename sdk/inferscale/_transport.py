"""The drivers: they run the flows of `_exchange` over httpx, one blocking, one awaiting.

Owns the connection and the mapping of httpx's exceptions to ours; decides nothing. Invariant: no
exception of httpx leaves this module.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from inferscale._config import ClientConfig
from inferscale._exchange import Flow, Send, exchange
from inferscale._operation import Operation
from inferscale._retry import RetryPolicy
from inferscale._version import __version__
from inferscale.errors import (
    APIConnectionError,
    APIError,
    APIResponseError,
    APITimeoutError,
    StreamError,
)

T = TypeVar("T")
_CONNECT_TIMEOUT_S = 5.0
_READ_ONCE = "A stream can be iterated once; keep its chunks if you need them again."

# Most specific class wins. The flag: may the sidecar have received the request?
ERROR_BY_EXCEPTION: dict[type[httpx.RequestError], tuple[type[APIError], bool]] = {
    httpx.ConnectError: (APIConnectionError, False),
    httpx.ConnectTimeout: (APITimeoutError, False),
    httpx.PoolTimeout: (APITimeoutError, False),
    httpx.UnsupportedProtocol: (APIConnectionError, False),
    httpx.TimeoutException: (APITimeoutError, True),
    httpx.TransportError: (APIConnectionError, True),
    httpx.DecodingError: (APIResponseError, True),
    httpx.TooManyRedirects: (APIResponseError, True),
    httpx.RequestError: (APIConnectionError, True),
}


def map_exception(error: httpx.RequestError, url: object) -> APIError:
    """Ours for httpx's `error`, which becomes its cause."""
    found = next(ERROR_BY_EXCEPTION[c] for c in type(error).__mro__ if c in ERROR_BY_EXCEPTION)
    kind, maybe_received = found
    mapped = kind(f"{url}: {error or type(error).__name__} ({type(error).__name__}).")
    mapped.maybe_received = maybe_received
    mapped.__cause__ = error
    return mapped


@contextmanager
def mapped_exceptions(url: object) -> Iterator[None]:
    """Raises ours for httpx's exceptions."""
    try:
        yield
    except httpx.RequestError as error:
        raise map_exception(error, url) from error
    except httpx.StreamError as error:
        raise StreamError(
            "the stream has been read or closed already.", remedy=_READ_ONCE
        ) from error


class _Transport:
    """What both drivers share: the settings, and how a request is built."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.policy = RetryPolicy(max_retries=config.max_retries)

    def _options(self) -> dict[str, Any]:
        # A proxy named in the environment cannot reach this machine's loopback address.
        return {"trust_env": not self.config.is_local}

    def _body(self, operation: Operation[Any]) -> Any:
        return operation.pieces() if operation.pieces else operation.content

    def _request_options(self, operation: Operation[Any]) -> dict[str, Any]:
        headers = {"Accept": "application/json", "User-Agent": f"inferscale/{__version__}"}
        if self.config.api_key:
            headers["Authorization"] = f"Bearer {self.config.api_key}"
        if operation.content is not None:
            headers["Content-Type"] = "application/json"
        timeout_s = operation.timeout_s or self.config.timeout_s
        return {
            "method": operation.method,
            "url": self.config.base_url + operation.path,
            "params": operation.params or None,
            "content": self._body(operation),
            "headers": headers | dict(operation.headers),
            "timeout": httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
        }


class SyncTransport(_Transport):
    """Runs flows, blocking. Closes the HTTP client only if it made it."""

    def __init__(
        self,
        config: ClientConfig,
        http_client: httpx.Client | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(config)
        self._owns_client = http_client is None
        self._client = http_client or httpx.Client(**self._options())
        self._sleep = sleep

    def call(self, operation: Operation[T]) -> T:
        """The result of `operation`, with retries."""
        return self.run(exchange(operation, self.policy))

    def run(self, flow: Flow[T]) -> T:
        """Drive `flow` to its end."""
        outcome: httpx.Response | APIError | None = None
        try:
            while True:
                step = flow.send(outcome)
                outcome = self._send(step.operation) if isinstance(step, Send) else None
                if not isinstance(step, Send):
                    self._sleep(step.seconds)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _send(self, operation: Operation[Any]) -> httpx.Response | APIError:
        request = self._client.build_request(**self._request_options(operation))
        try:
            response = self._client.send(request, stream=operation.stream)
            if not response.is_success:
                response.read()
            return response
        except httpx.RequestError as error:
            return map_exception(error, request.url.copy_with(query=None))

    def close(self) -> None:
        """Close the connections, unless the HTTP client was passed in."""
        if self._owns_client:
            self._client.close()


class AsyncTransport(_Transport):
    """Runs flows, awaiting. Closes the HTTP client only if it made it."""

    def __init__(
        self,
        config: ClientConfig,
        http_client: httpx.AsyncClient | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(config)
        self._owns_client = http_client is None
        self._client = http_client or httpx.AsyncClient(**self._options())
        self._sleep = sleep

    def _body(self, operation: Operation[Any]) -> Any:
        return _awaited(operation.pieces()) if operation.pieces else operation.content

    async def call(self, operation: Operation[T]) -> T:
        """The result of `operation`, with retries."""
        return await self.run(exchange(operation, self.policy))

    async def run(self, flow: Flow[T]) -> T:
        """Drive `flow` to its end."""
        outcome: httpx.Response | APIError | None = None
        try:
            while True:
                step = flow.send(outcome)
                outcome = await self._send(step.operation) if isinstance(step, Send) else None
                if not isinstance(step, Send):
                    await self._sleep(step.seconds)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def _send(self, operation: Operation[Any]) -> httpx.Response | APIError:
        request = self._client.build_request(**self._request_options(operation))
        try:
            response = await self._client.send(request, stream=operation.stream)
            if not response.is_success:
                await response.aread()
            return response
        except httpx.RequestError as error:
            return map_exception(error, request.url.copy_with(query=None))

    async def close(self) -> None:
        """Close the connections, unless the HTTP client was passed in."""
        if self._owns_client:
            await self._client.aclose()


async def _awaited(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same, each made in a thread: it may read a disk."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
