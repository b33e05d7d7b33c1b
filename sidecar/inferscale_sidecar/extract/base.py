"""The port of an extractor: messages in, facts that the messages support out.

Invariant of every implementation: each fact names the messages that it comes from; nothing is
extracted from nothing; whatever goes wrong is an `ExtractionFailed`, so that the caller can keep
the messages as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class ExtractionFailed(Exception):
    """The LLM did not answer, or not with facts. The message says which, and what to do.

    No error of a request: whoever asks for an extraction keeps the messages, and reports it.
    """

    def __init__(self, message: str, *, code: str = "extraction_failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(frozen=True)
class Turn:
    """One message. `said_at` is None if the client did not tell."""

    text: str
    role: str | None = None
    speaker: str | None = None
    said_at: datetime | None = None


@dataclass(frozen=True)
class Fact:
    """One sentence to remember, and the places of the messages that support it, ascending."""

    text: str
    sources: tuple[int, ...]


@dataclass(frozen=True)
class Extracted:
    """The facts in the order of the messages, and how many more were not supported by any."""

    facts: tuple[Fact, ...]
    dropped: int = 0


class Extractor(Protocol):
    """Safe to share between tasks."""

    async def extract(self, turns: Sequence[Turn], *, now: datetime, salt: str = "") -> Extracted:
        """Facts about the speakers.

        Args:
            turns: in order; those of the roles `user` and `assistant` are read.
            now: when the conversation is stored, for messages that do not say when they were said.
            salt: keeps what the engine caches of this apart from other tenants'.

        Raises:
            ExtractionFailed: see there. Never raised without a message to extract from.
        """

    async def close(self) -> None:
        """Give connections back."""
