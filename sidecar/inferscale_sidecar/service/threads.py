"""Conversation threads: keep messages, and remember what is in them.

Owns the order: messages are kept before anything is remembered from them, or summarized. Invariant:
a thread belongs to one user for ever.
"""

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope, Tenant, Thread, ThreadMessage
from inferscale_sidecar.errors import InvalidInput, NotFound
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.memory_facts import Additions
from inferscale_sidecar.service.message import check_key, check_metadata, read_notes
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.summaries import SummaryWriter
from inferscale_sidecar.service.thread_context import ThreadContexts, not_found
from inferscale_sidecar.store import MemoryStore
from inferscale_sidecar.store.records import Removed
from inferscale_sidecar.store.thread_port import MessageDraft, MessagePage, ThreadPage

MAX_PAGE = 1_000


@dataclass(frozen=True)
class AddedMessages:
    """Messages that were kept, and what was remembered from them."""

    messages: Sequence[ThreadMessage]
    additions: Additions


class ThreadService(ThreadContexts):
    """The use cases of threads.

    Args:
        store: the truth.
        memory: remembers what is said in threads.
        recall: finds what bears on them.
        metrics: where operations are counted.
        on_write: called after a deletion; wakes the queue that purges the bank. Must not block.
        summaries: summarizes long threads; None if nobody does.
    """

    def __init__(
        self,
        store: MemoryStore,
        memory: MemoryService,
        recall: RecallService,
        metrics: Metrics,
        *,
        on_write: Callable[[], None] = lambda: None,
        summaries: SummaryWriter | None = None,
    ) -> None:
        super().__init__(store, recall)
        self._memory, self._metrics, self._on_write = memory, metrics, on_write
        self._summaries = summaries

    async def create(
        self,
        tenant: Tenant,
        thread_id: str | None,
        scope: Scope,
        metadata: dict[str, Any] | None = None,
    ) -> Thread:
        """A thread of the user (and agent, and app) of `scope`; the one that is there if it is.

        Raises:
            Conflict: the id is another user's, agent's or app's thread.
            InvalidInput: metadata that cannot be stored.
        """
        with self._metrics.operation("thread_write"):
            return await self._store.create_thread(
                tenant.id, thread_id or f"thread-{uuid.uuid4()}", scope, check_metadata(metadata)
            )

    async def get(self, tenant: Tenant, thread_id: str) -> Thread:
        """Raises NotFound, also for another tenant's thread."""
        with self._metrics.operation("thread_read"):
            return await self.find(tenant, thread_id)

    async def list(
        self, tenant: Tenant, scope: Scope, *, limit: int = 100, after: int | None = None
    ) -> ThreadPage:
        """A page of the threads of a scope, oldest first; an empty one: all of them."""
        with self._metrics.operation("thread_read"):
            where = None if scope == Scope() else scope
            return await self._store.list_threads(tenant.id, where, limit=limit, after=after)

    async def add_messages(
        self,
        tenant: Tenant,
        thread_id: str,
        messages: str | Message | Sequence[Message],
        *,
        metadata: dict[str, Any] | None = None,
        infer: bool | None = None,
        wait: bool = True,
        idempotency_key: str | None = None,
    ) -> AddedMessages:
        """Keep messages, and then remember what is in them if asked to.

        If remembering fails, the messages are kept all the same; the same call again with the same
        key is safe.

        Args:
            infer: None: keep only; False: remember them as they are; True: the facts in them.
            wait: False to extract facts in the background.

        Raises:
            Conflict: the idempotency key was used for another request.
            InvalidInput: a text or metadata that cannot be stored.
            NotFound: no such thread.
            Unsupported: `infer=True` without an LLM.
        """
        with self._metrics.operation("thread_write"):
            metadata = check_metadata(metadata)
            drafts = [
                MessageDraft(n.role or "user", n.text, n.actor_id, n.said_at, metadata)
                for n in read_notes(messages, keep_system=True)
            ]
            thread = await self.find(tenant, thread_id)
            key = check_key(idempotency_key)
            kept = await self._store.add_messages(tenant.id, thread_id, drafts, key=key)
            if kept is None:
                raise not_found(thread_id)
            await self._summarize(tenant, thread_id)
        if infer is None or not kept:
            return AddedMessages(kept, Additions([]))
        additions = await self._memory.remember(
            tenant,
            thread.scope,
            messages,
            metadata=metadata,
            infer=infer,
            wait=wait,
            idempotency_key=_memory_key(thread_id, key),
        )
        return AddedMessages(kept, additions)

    async def messages(
        self,
        tenant: Tenant,
        thread_id: str,
        *,
        limit: int = 100,
        start: int | None = None,
        newest_first: bool = False,
    ) -> MessagePage:
        """A page of a thread's messages. Raises InvalidInput for a bad limit, or NotFound."""
        with self._metrics.operation("thread_read"):
            if not 1 <= limit <= MAX_PAGE:
                raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}", param="limit")
            page = await self._store.list_messages(
                tenant.id, thread_id, limit=limit, start=start, newest_first=newest_first
            )
            if page is None:
                raise not_found(thread_id)
            return page

    async def delete_message(self, tenant: Tenant, thread_id: str, message_id: str) -> Removed:
        """Remove one message. What was remembered from it stays. Raises NotFound."""
        with self._metrics.operation("delete"):
            if not await self._store.delete_message(tenant.id, thread_id, message_id):
                raise NotFound(f"no message {message_id[:64]!a} in thread {thread_id[:64]!a}")
            await self._summarize(tenant, thread_id)
            return Removed(0, 0, messages=1)

    async def delete(
        self, tenant: Tenant, thread_id: str, *, keep_memories: bool = False
    ) -> Removed:
        """Remove a thread with its messages and all that is remembered from them.

        Args:
            keep_memories: True: what is remembered stays with the user.

        Raises:
            NotFound: no such thread.
        """
        with self._metrics.operation("delete"):
            thread = await self.find(tenant, thread_id)
            if keep_memories:
                removed = await self._store.delete_thread(tenant.id, thread_id)
                if removed is None:
                    raise not_found(thread_id)
                self._on_write()
                return removed
            own = Scope(user_id=thread.scope.user_id, run_id=thread_id)
            removed = await self._store.delete_scope(tenant.id, own)
            self._on_write()
            return removed

    async def _summarize(self, tenant: Tenant, thread_id: str) -> None:
        if self._summaries is not None:
            await self._summaries.note(tenant.id, thread_id)


def _memory_key(thread_id: str, key: str | None) -> str | None:
    """Another name than the client's own: it may use that one for memories as well."""
    if key is None:
        return None
    return "thread-" + hashlib.sha256(f"{thread_id}\x00{key}".encode()).hexdigest()
