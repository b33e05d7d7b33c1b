"""Streamed chat answers, to be iterated once. Shells over `_sse.ChunkReader`."""

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

import httpx

from inferscale import _chat_operations as ops
from inferscale._chat import ChatCompletionChunk
from inferscale._results import MemoryReport
from inferscale._sse import ChunkReader
from inferscale._transport import AsyncTransport, SyncTransport, mapped_exceptions
from inferscale.errors import APIResponseError
from inferscale.protocol.chat import REPORT_HEADER


class _Stream:
    """What both share. `request_id` names the request in reports and in the sidecar's logs."""

    def __init__(self, response: httpx.Response) -> None:
        self.request_id: str | None = response.headers.get(REPORT_HEADER)
        self._response = response
        self._reader = ChunkReader(self.request_id)

    def _named(self) -> str:
        if self.request_id is None:
            raise APIResponseError(f"the stream came without the header {REPORT_HEADER}.")
        return self.request_id


class ChatStream(_Stream):
    """Chunks of an answer as they arrive. Close it, or use `with`, if you stop before its end."""

    def __init__(self, response: httpx.Response, transport: SyncTransport) -> None:
        super().__init__(response)
        self._transport = transport

    def __iter__(self) -> Iterator[ChatCompletionChunk]:
        try:
            with mapped_exceptions(self._response.url):
                for piece in self._response.iter_bytes():
                    yield from self._reader.feed(piece)
            self._reader.finish()
        finally:
            self.close()

    def report(self) -> MemoryReport:
        """What happened to the memory of this request; known from its first chunk on.

        Raises:
            NotFoundError: the sidecar does not keep the report any more.
        """
        return self._transport.call(ops.report(self._named()))

    def close(self) -> None:
        """Stop the answer: the engine is told, and generates no further."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncChatStream(_Stream):
    """As `ChatStream`, awaited: `async for`, `async with`, `await stream.report()`."""

    def __init__(self, response: httpx.Response, transport: AsyncTransport) -> None:
        super().__init__(response)
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[ChatCompletionChunk]:
        try:
            with mapped_exceptions(self._response.url):
                async for piece in self._response.aiter_bytes():
                    for chunk in self._reader.feed(piece):
                        yield chunk
            self._reader.finish()
        finally:
            await self.close()

    async def report(self) -> MemoryReport:
        """As `ChatStream.report`."""
        return await self._transport.call(ops.report(self._named()))

    async def close(self) -> None:
        """As `ChatStream.close`."""
        await self._response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
