"""The port of conversation threads, and what goes through it. Promises as in `base`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from inferscale_sidecar.core import Scope, Thread, ThreadMessage
from inferscale_sidecar.store.records import Removed


@dataclass(frozen=True)
class MessageDraft:
    """A message about to be kept, word for word."""

    role: str
    content: str
    name: str | None = None
    said_at: datetime | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class ThreadPage:
    """Threads, oldest first. `next_after` continues the list; None on the last page."""

    threads: Sequence[Thread]
    total: int
    next_after: int | None


@dataclass(frozen=True)
class MessagePage:
    """Messages in the order asked for. `next_from` continues the list; None on the last page."""

    messages: Sequence[ThreadMessage]
    total: int
    next_from: int | None


class ThreadPort(Protocol):
    """Threads with their messages. A thread is a run of its user: its id is a `run_id`."""

    async def create_thread(
        self, tenant_id: str, thread_id: str, scope: Scope, metadata: dict[str, Any] | None
    ) -> Thread:
        """A new thread of the user (and agent, and app) of `scope`, or the one that is there.

        Raises:
            Conflict: the id is another user's, agent's or app's thread.
            NotFound: no such tenant.
            QuotaExceeded: over one of the tenant's limits.
        """

    async def get_thread(self, tenant_id: str, thread_id: str) -> Thread | None: ...

    async def list_threads(
        self, tenant_id: str, scope: Scope | None = None, *, limit: int, after: int | None = None
    ) -> ThreadPage:
        """A page of the threads of a scope (None: of the tenant), oldest first, starting
        above number `after`."""

    async def add_messages(
        self,
        tenant_id: str,
        thread_id: str,
        drafts: Sequence[MessageDraft],
        *,
        key: str | None = None,
    ) -> list[ThreadMessage] | None:
        """Keep messages, all or none; None if there is no such thread.

        With a `key` that was used before in this thread, the messages of then.

        Raises:
            Conflict: they were others.
            QuotaExceeded: over one of the tenant's limits.
        """

    async def list_messages(
        self,
        tenant_id: str,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        newest_first: bool = False,
    ) -> MessagePage | None:
        """A page of a thread's messages, beyond number `start`; None if there is no such thread."""

    async def delete_message(self, tenant_id: str, thread_id: str, message_id: str) -> bool:
        """Remove one message; False if there is none."""

    async def delete_thread(self, tenant_id: str, thread_id: str) -> Removed | None:
        """Remove a thread with its messages; None if there is none. Memories stay."""
