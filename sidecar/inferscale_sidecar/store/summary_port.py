"""The port of thread summaries, and what goes through it. Promises as in `base`.

A summary is derived: it goes with its thread, and is made again when one of its messages goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from inferscale_sidecar.core import ThreadMessage

SummaryState = Literal["pending", "done", "failed"]


@dataclass(frozen=True)
class ThreadSummary:
    """What the first `num_messages` of a thread say. `text` is None until there is one."""

    state: SummaryState
    text: str | None
    num_messages: int
    updated_at: datetime
    error: str | None = None


@dataclass(frozen=True)
class SummaryWork:
    """A summary so far, and the messages that it shall say, too; void once either has changed.

    `after` is the number of the last message that is in it, `up_to` of the last in `messages`.
    """

    after: int
    text: str | None
    messages: Sequence[ThreadMessage]
    up_to: int


class SummaryPort(Protocol):
    """Summaries of the older part of threads: all but the last `keep` messages."""

    async def ask_for_summary(self, tenant_id: str, thread_id: str, *, keep: int) -> bool:
        """Note that a thread is to be summarized, if `keep` messages or more could be. True if it
        waits now, or did. What failed before is tried again."""

    async def pending_summaries(self, *, limit: int) -> list[tuple[str, str]]:
        """(tenant, thread) of the oldest that wait, of all tenants."""

    async def summary_work(
        self, tenant_id: str, thread_id: str, *, keep: int, limit: int, max_chars: int
    ) -> SummaryWork | None:
        """What comes next, at most `limit` messages of at most `max_chars` together, or one of any
        length; None if nothing waits."""

    async def put_summary(
        self, tenant_id: str, thread_id: str, work: SummaryWork, text: str, *, keep: int
    ) -> bool:
        """Store the new summary; it is pending as long as there is more. False if it is void."""

    async def fail_summary(self, tenant_id: str, thread_id: str, error: str) -> None:
        """It could not be made; the one before stays."""

    async def get_summary(self, tenant_id: str, thread_id: str) -> ThreadSummary | None: ...
