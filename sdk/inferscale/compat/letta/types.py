"""What Letta's methods return. Fields that we cannot fill are None."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


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


class BlockResponse(_Record):
    """A block, pinned to the agents that it is attached to."""

    id: str
    value: str
    label: str
    description: str | None = None
    limit: int
    read_only: bool = False
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    base_template_id: None = None
    created_by_id: None = None
    deployment_id: None = None
    entity_id: None = None
    hidden: None = None
    is_template: bool = False
    last_updated_by_id: None = None
    preserve_on_migration: None = None
    project_id: None = None
    template_id: None = None
    template_name: None = None


class AgentState(_Record):
    """An agent, as far as its blocks say something of it."""

    id: str
    blocks: list[BlockResponse] | None = None


class ArrayPage(Generic[T]):
    """A list of results, all on one page; iterate over it either way."""

    def __init__(self, items: list[T]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    async def __aiter__(self) -> AsyncIterator[T]:
        for item in self.items:
            yield item

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"ArrayPage({len(self.items)} items)"
