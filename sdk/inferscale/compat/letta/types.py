"""What Letta's passages methods return. Fields that we cannot fill are None."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Passage(_Record):
    """A passage: one memory of an agent."""

    id: str
    text: str
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime
    updated_at: datetime
    is_deleted: bool = False
    archive_id: str | None = None
    embedding: None = None
    embedding_config: None = None


class SearchResult(_Record):
    """A passage found in one agent's memory."""

    id: str
    content: str
    timestamp: str
    tags: list[str] | None = None


class PassageSearchResponse(_Record):
    """Result of `agents.passages.search`, best first."""

    count: int
    results: list[SearchResult]


class PassageSearchResponseItem(_Record):
    """One result of `passages.search`."""

    passage: Passage
    score: float
    metadata: dict[str, Any] | None = None
