"""`memory.threads` of the awaiting client. `_thread_client` documents it."""

from collections.abc import Mapping
from typing import Any

from inferscale import _thread_operations
from inferscale._messages import Messages
from inferscale._results import DeleteResult
from inferscale._thread_results import (
    AddMessagesResult,
    MessageList,
    Thread,
    ThreadContext,
    ThreadList,
)
from inferscale._transport import AsyncTransport


class AsyncThreads:
    """`Threads` for asyncio: same arguments, every method awaited."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        user_id: str,
        *,
        thread_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """As `Threads.create`."""
        owner = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id}
        fields = {"id": thread_id, **owner, "metadata": metadata}
        return await self._transport.call(_thread_operations.create(fields))

    async def get(self, thread_id: str) -> Thread | None:
        """As `Threads.get`."""
        return await self._transport.call(_thread_operations.get(thread_id))

    async def add_messages(
        self,
        thread_id: str,
        messages: Messages,
        *,
        infer: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        async_mode: bool | None = None,
        idempotency_key: str | None = None,
    ) -> AddMessagesResult:
        """As `Threads.add_messages`."""
        operation = _thread_operations.add_messages(
            thread_id,
            messages,
            metadata=metadata,
            infer=infer,
            async_mode=async_mode,
            idempotency_key=idempotency_key,
        )
        return await self._transport.call(operation)

    async def messages(
        self,
        thread_id: str,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> MessageList:
        """As `Threads.messages`."""
        if limit is None and cursor is None:
            policy = self._transport.policy
            return await self._transport.run(
                _thread_operations.all_messages(thread_id, newest_first, policy)
            )
        operation = _thread_operations.messages_page(
            thread_id, newest_first=newest_first, limit=limit, cursor=cursor
        )
        return await self._transport.call(operation)

    async def get_context(
        self,
        thread_id: str,
        *,
        k: int | None = None,
        last: int | None = None,
        messages: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        ttl_s: int | None = None,
    ) -> ThreadContext:
        """As `Threads.get_context`."""
        fields = {
            "k": k,
            "last": last,
            "messages": messages,
            "threshold": threshold,
            "filters": filters,
            "max_tokens": max_tokens,
            "ttl_s": ttl_s,
        }
        return await self._transport.call(_thread_operations.context(thread_id, fields))

    async def delete_message(self, thread_id: str, message_id: str) -> DeleteResult:
        """As `Threads.delete_message`."""
        return await self._transport.call(_thread_operations.delete_message(thread_id, message_id))

    async def delete(self, thread_id: str, *, keep_memories: bool = False) -> DeleteResult:
        """As `Threads.delete`."""
        operation = _thread_operations.delete(thread_id, keep_memories=keep_memories)
        return await self._transport.call(operation)

    async def list(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ThreadList:
        """As `Threads.list`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id}
        if limit is None and cursor is None:
            return await self._transport.run(
                _thread_operations.list_all(scope, self._transport.policy)
            )
        operation = _thread_operations.list_page(scope, limit=limit, cursor=cursor)
        return await self._transport.call(operation)
