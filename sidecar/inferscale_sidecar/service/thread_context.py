"""What bears on a thread: memories of its user, its last messages, a summary of what came before.

Invariant: the context of a thread is its user's, whoever else the tenant serves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferscale.protocol.threads import QUERY_MESSAGES
from inferscale_sidecar.core import Composition, Scope, Tenant, Thread, ThreadMessage
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.service.recall import DEFAULT_TTL_S, RecallService
from inferscale_sidecar.store import MemoryStore
from inferscale_sidecar.store.summary_port import ThreadSummary

MAX_QUERY_CHARS = 8_000


@dataclass(frozen=True)
class ThreadContext:
    """What bears on the last messages of a thread, and some of those messages, oldest first.

    `summary` is of older messages; None if there is none.
    """

    composition: Composition
    messages: Sequence[ThreadMessage]
    summary: ThreadSummary | None = None


class ThreadContexts:
    """The reading half of `ThreadService`."""

    def __init__(self, store: MemoryStore, recall: RecallService) -> None:
        self._store, self._recall = store, recall

    async def context(
        self,
        tenant: Tenant,
        thread_id: str,
        *,
        k: int = 20,
        last: int = QUERY_MESSAGES,
        num_messages: int = 0,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        ttl_s: int = DEFAULT_TTL_S,
    ) -> ThreadContext:
        """What is remembered of the thread's user that bears on its last messages.

        Args:
            k, threshold, filters, max_tokens, ttl_s: as for a recall.
            last: how many of the last messages are the query.
            num_messages: how many of the last messages are given back.

        Raises:
            NotFound: no such thread.
        """
        thread = await self.find(tenant, thread_id)
        wanted = max(last, num_messages)
        page = await self._store.list_messages(
            tenant.id, thread_id, limit=wanted, newest_first=True
        )
        newest = page.messages if page else ()
        query = "\n".join(m.content for m in reversed(newest[:last]))[-MAX_QUERY_CHARS:].strip()
        composition = await self._recall.recall(
            tenant,
            Scope(user_id=thread.scope.user_id),
            query,
            k=k if query else 0,
            threshold=threshold,
            filters=filters,
            max_tokens=max_tokens,
            shown_to=thread.scope,
            ttl_s=ttl_s,
        )
        summary = await self._store.get_summary(tenant.id, thread_id)
        return ThreadContext(composition, newest[:num_messages][::-1], summary)

    async def find(self, tenant: Tenant, thread_id: str) -> Thread:
        """Raises NotFound, also for another tenant's thread."""
        thread = await self._store.get_thread(tenant.id, thread_id)
        if thread is None:
            raise not_found(thread_id)
        return thread


def not_found(thread_id: str) -> NotFound:
    """The error for a thread that there is not."""
    return NotFound(
        f"no thread {thread_id[:64]!a}; it does not exist or was deleted: make it with POST "
        "/v1/threads"
    )
