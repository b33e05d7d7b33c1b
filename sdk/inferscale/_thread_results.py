"""What the methods of `memory.threads` return: typed, immutable, readable like dictionaries."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferscale._handle import MemoryHandle
from inferscale._results import AddResult, MappingModel
from inferscale.protocol import threads as wire


class Thread(MappingModel, wire.Thread):
    """A conversation of a user; its `id` is the `run_id` of what is remembered from it."""


class ThreadList(MappingModel):
    """Threads, oldest first."""

    results: list[Thread]
    total: int
    next_cursor: str | None = None


class ThreadMessage(MappingModel, wire.ThreadMessage):
    """One message of a thread, word for word."""


class MessageList(MappingModel):
    """Messages of a thread, in the order asked for. `total` counts the thread, not the page."""

    results: list[ThreadMessage]
    total: int
    next_cursor: str | None = None


class ThreadSummary(MappingModel, wire.ThreadSummary):
    """What the first `messages` of a thread say. `state` is "pending", "done" or "failed"."""


class AddMessagesResult(AddResult):
    """The messages that were kept; `results` and `extraction` as from `memory.add`."""

    messages: list[ThreadMessage]


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """What bears on the last messages of a thread.

    Attributes:
        handle: to attach to a request; `str(handle)` is the same as text.
        messages: the last messages, oldest first, as many as were asked for.
        summary: of older messages; None unless the sidecar makes summaries.
    """

    thread_id: str
    handle: MemoryHandle
    messages: Sequence[ThreadMessage] = ()
    summary: ThreadSummary | None = None

    @property
    def text(self) -> str:
        """Exactly the block that the model sees."""
        return self.handle.text

    def __str__(self) -> str:
        return self.handle.text
