"""`chat` and `report` of both clients: one class blocks, the other awaits; the rest is the same.

Owns signatures only; bodies are made by `_chat_operations`, streams read by `_stream`.
"""

from typing import Any, Literal, overload

from inferscale import _chat_operations
from inferscale._attach import MemoryLike
from inferscale._chat import ChatCompletion
from inferscale._messages import Messages
from inferscale._results import MemoryReport
from inferscale._stream import AsyncChatStream, ChatStream
from inferscale._transport import AsyncTransport, SyncTransport


class ChatMethods:
    """The part of `Memory` that talks to the model."""

    _transport: SyncTransport

    @overload
    def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[True],
        memory: MemoryLike | None = ...,
        user_id: str | None = ...,
        agent_id: str | None = ...,
        run_id: str | None = ...,
        app_id: str | None = ...,
        k: int | None = ...,
        timeout_s: float | None = ...,
        **params: Any,
    ) -> ChatStream: ...

    @overload
    def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[False] = ...,
        memory: MemoryLike | None = ...,
        user_id: str | None = ...,
        agent_id: str | None = ...,
        run_id: str | None = ...,
        app_id: str | None = ...,
        k: int | None = ...,
        timeout_s: float | None = ...,
        **params: Any,
    ) -> ChatCompletion: ...

    def chat(
        self,
        messages: Messages,
        *,
        stream: bool = False,
        memory: MemoryLike | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        k: int | None = None,
        timeout_s: float | None = None,
        **params: Any,
    ) -> ChatCompletion | ChatStream:
        """Ask the model, with memory.

        Args:
            messages: a text, or chat messages. Without `memory` and ids, no memory is used.
            stream: return chunks as they are generated.
            memory: a handle, its id, or a dict such as `{"user_id": "alice", "k": 20}`.
            user_id, agent_id, run_id, app_id, k: short for such a dict; the last user message is
                the query.
            timeout_s: overrides the client's. In a stream it bounds the wait for each piece.
            params: anything of OpenAI's Chat Completions API (model, temperature, tools, …).
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        body = _chat_operations.chat_body(messages, memory=memory, scope=scope, k=k, params=params)
        if not stream:
            return self._transport.call(_chat_operations.chat(body, timeout_s=timeout_s))
        response = self._transport.call(_chat_operations.stream_chat(body, timeout_s=timeout_s))
        return ChatStream(response, self._transport)

    def report(self, request_id: str) -> MemoryReport:
        """What happened to the memory of a chat request. Raises NotFoundError if it is not kept."""
        return self._transport.call(_chat_operations.report(request_id))


class AsyncChatMethods:
    """The part of `AsyncMemory` that talks to the model."""

    _transport: AsyncTransport

    @overload
    async def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[True],
        memory: MemoryLike | None = ...,
        user_id: str | None = ...,
        agent_id: str | None = ...,
        run_id: str | None = ...,
        app_id: str | None = ...,
        k: int | None = ...,
        timeout_s: float | None = ...,
        **params: Any,
    ) -> AsyncChatStream: ...

    @overload
    async def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[False] = ...,
        memory: MemoryLike | None = ...,
        user_id: str | None = ...,
        agent_id: str | None = ...,
        run_id: str | None = ...,
        app_id: str | None = ...,
        k: int | None = ...,
        timeout_s: float | None = ...,
        **params: Any,
    ) -> ChatCompletion: ...

    async def chat(
        self,
        messages: Messages,
        *,
        stream: bool = False,
        memory: MemoryLike | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        k: int | None = None,
        timeout_s: float | None = None,
        **params: Any,
    ) -> ChatCompletion | AsyncChatStream:
        """As `Memory.chat`; a stream is read with `async for`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        body = _chat_operations.chat_body(messages, memory=memory, scope=scope, k=k, params=params)
        if not stream:
            return await self._transport.call(_chat_operations.chat(body, timeout_s=timeout_s))
        response = await self._transport.call(
            _chat_operations.stream_chat(body, timeout_s=timeout_s)
        )
        return AsyncChatStream(response, self._transport)

    async def report(self, request_id: str) -> MemoryReport:
        """As `Memory.report`."""
        return await self._transport.call(_chat_operations.report(request_id))
