"""`memory.threads` of the blocking client: signatures and documentation of both."""

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
from inferscale._transport import SyncTransport


class Threads:
    """Conversations: messages word for word, and what is remembered that bears on them."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport

    def create(
        self,
        user_id: str,
        *,
        thread_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """A thread of a user. May be repeated: the thread that is there is given then.

        Args:
            thread_id: its name, without '/'; None: one is made up.
            agent_id, app_id: whom the user talks to, and where, if there are several.

        Raises:
            ConflictError: the id is another user's, agent's or app's thread.
        """
        owner = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id}
        fields = {"id": thread_id, **owner, "metadata": metadata}
        return self._transport.call(_thread_operations.create(fields))

    def get(self, thread_id: str) -> Thread | None:
        """One thread, or None if there is none with this id."""
        return self._transport.call(_thread_operations.get(thread_id))

    def add_messages(
        self,
        thread_id: str,
        messages: Messages,
        *,
        infer: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        async_mode: bool | None = None,
        idempotency_key: str | None = None,
    ) -> AddMessagesResult:
        """Keep messages; they can be read when this returns.

        Args:
            messages: a text, a message, or a list of them.
            infer: None keeps them only; False remembers each as it is, too; True the facts in them.
            metadata: any JSON object, kept with each message and with what is remembered.
            async_mode: True to have the facts extracted in the background.
            idempotency_key: additions with the same key are one. Default: a new one for each call.
        """
        operation = _thread_operations.add_messages(
            thread_id,
            messages,
            metadata=metadata,
            infer=infer,
            async_mode=async_mode,
            idempotency_key=idempotency_key,
        )
        return self._transport.call(operation)

    def messages(
        self,
        thread_id: str,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> MessageList:
        """Messages of a thread, oldest first unless `newest_first`: all, or one page.

        Raises:
            NotFoundError: there is no such thread.
        """
        if limit is None and cursor is None:
            policy = self._transport.policy
            return self._transport.run(
                _thread_operations.all_messages(thread_id, newest_first, policy)
            )
        operation = _thread_operations.messages_page(
            thread_id, newest_first=newest_first, limit=limit, cursor=cursor
        )
        return self._transport.call(operation)

    def get_context(
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
        """What is remembered of the thread's user that bears on its last messages, as a handle.

        Pinned blocks of the user, the agent, the app and the thread are in it.

        Args:
            k, threshold, filters, max_tokens, ttl_s: as in `recall`.
            last: how many of the last messages are the query (default 4).
            messages: how many of the last messages are given back (default none).
        """
        fields = {
            "k": k,
            "last": last,
            "messages": messages,
            "threshold": threshold,
            "filters": filters,
            "max_tokens": max_tokens,
            "ttl_s": ttl_s,
        }
        return self._transport.call(_thread_operations.context(thread_id, fields))

    def delete_message(self, thread_id: str, message_id: str) -> DeleteResult:
        """Remove one message. What was remembered from it stays."""
        return self._transport.call(_thread_operations.delete_message(thread_id, message_id))

    def delete(self, thread_id: str, *, keep_memories: bool = False) -> DeleteResult:
        """Forget a thread, and what was remembered from it unless `keep_memories`."""
        operation = _thread_operations.delete(thread_id, keep_memories=keep_memories)
        return self._transport.call(operation)

    def list(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ThreadList:
        """Threads of a user, an agent or an app, oldest first; without ids, all of the tenant."""
        scope = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id}
        if limit is None and cursor is None:
            return self._transport.run(_thread_operations.list_all(scope, self._transport.policy))
        operation = _thread_operations.list_page(scope, limit=limit, cursor=cursor)
        return self._transport.call(operation)
