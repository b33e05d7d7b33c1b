"""What Zep's methods take and return, as far as facts go. Fields that we cannot fill are None.

Invariant: attributes are Zep's; `model_dump(by_alias=True)` has its JSON names.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from inferscale import MemoryHandle

T = TypeVar("T")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(_Record):
    """A message of a thread."""

    content: str
    role: str
    name: str | None = None
    created_at: str | None = None
    reference_time: str | None = None
    metadata: dict[str, Any] | None = None
    processed: bool | None = None
    uuid_: str | None = Field(default=None, serialization_alias="uuid")


AddMessage = Message
"""v4's name for a message that is added."""


class EpisodeData(_Record):
    """A piece of data for `graph.add_batch`."""

    data: str
    type: str = "text"
    created_at: str | None = None
    metadata: dict[str, Any] | None = None
    source_description: str | None = None


class User(_Record):
    """A user. `uuid_` is the id; `graph_uuid` names the user's memory for v4's graph methods."""

    user_id: str
    uuid_: str = Field(serialization_alias="uuid")
    graph_uuid: str
    email: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    updated_at: str | None = None


class Thread(_Record):
    """A thread. `uuid_` is the id."""

    thread_id: str
    uuid_: str = Field(serialization_alias="uuid")
    user_id: str | None = None
    user_uuid: str | None = None
    graph_uuid: str | None = None
    created_at: str | None = None


class ThreadListResponse(_Record):
    """v3's page of threads."""

    threads: list[Thread]
    row_count: int
    total_count: int


class Graph(_Record):
    """A graph. `uuid_` names it in v4's methods."""

    graph_id: str | None = None
    uuid_: str = Field(serialization_alias="uuid")
    user_uuid: str | None = None


class MessageListResponse(_Record):
    """v3's `thread.get`; of v4's thread it has the ids."""

    messages: list[Message]
    row_count: int
    total_count: int
    thread_created_at: str | None = None
    user_id: str | None = None
    user_uuid: str | None = None
    thread_id: str | None = None
    uuid_: str | None = Field(default=None, serialization_alias="uuid")


class _WithHandle(_Record):
    """`context` is the block as the model would see it; `handle` stands for it in a request.

    A handle is a capability: it is left out of dumps.
    """

    context: str | None = None
    handle: InstanceOf[MemoryHandle] | None = Field(default=None, exclude=True, repr=False)


class ThreadContextResponse(_WithHandle):
    """Context of a thread. An empty context has no handle."""


class AddThreadMessagesResponse(_WithHandle):
    """What was added. There is no task to wait for: it can be found at once."""

    message_uuids: list[str]
    messages: list[Message] | None = None
    task_id: str | None = None
    task: None = None


class EntityEdge(_Record):
    """A fact."""

    uuid_: str = Field(serialization_alias="uuid")
    fact: str
    name: str | None = None
    created_at: str
    valid_at: str | None = None
    invalid_at: str | None = None
    expired_at: str | None = None
    attributes: dict[str, Any] | None = None
    score: float | None = None
    relevance: float | None = None
    source_node_name: str | None = None
    target_node_name: str | None = None
    source_node_uuid: str | None = None
    target_node_uuid: str | None = None
    episodes: list[str] | None = None


class Episode(_Record):
    """A piece of data as it was added."""

    uuid_: str = Field(serialization_alias="uuid")
    content: str
    created_at: str
    metadata: dict[str, Any] | None = None
    processed: bool = True
    role: str | None = None
    role_type: str | None = None
    thread_id: str | None = None
    score: float | None = None
    relevance: float | None = None
    source: str | None = None
    source_description: str | None = None
    document_id: str | None = None
    task_id: str | None = None


class GraphSearchResults(_WithHandle):
    """v3's `graph.search`: `edges`, `episodes`, or for scope auto the context."""

    edges: list[EntityEdge] | None = None
    episodes: list[Episode] | None = None
    nodes: None = None


class GraphContextResponse(_WithHandle):
    """v4's `graph.get_context`."""

    results: GraphSearchResults | None = None
    truncated: bool = False


class EpisodeResponse(_Record):
    """v3's list of episodes."""

    episodes: list[Episode]


class AddEpisodeResult(_Record):
    """v4's `graph.episode.add`."""

    episode: Episode
    task: None = None


class AddEdgesResult(_Record):
    """v4's `graph.edge.add`."""

    edges: list[EntityEdge]
    task: None = None


class AddTripleResponse(_Record):
    """v3's `graph.add_fact_triple`."""

    edge: EntityEdge
    source_node: None = None
    target_node: None = None


class SuccessResponse(_Record):
    """It is done. There is no task to wait for."""

    message: str = "OK"
    task: None = None


@dataclass(frozen=True)
class Page(Generic[T]):
    """v4's pager: one page, iterable as either kind of client does it."""

    items: list[T]
    next_cursor: str | None = None

    @property
    def has_next(self) -> bool:
        """True if there is more, from `next_cursor` on."""
        return self.next_cursor is not None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    async def __aiter__(self) -> AsyncIterator[T]:
        for item in self.items:
            yield item
