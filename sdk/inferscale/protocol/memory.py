"""Requests and responses of the memory endpoints; recall and deletions have their own files.

Shapes follow Mem0 (`{"results": [...]}`, `memory` for the text, `event`), with what it lacks added:
cursors, totals, versions and the state of an item's KV.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from inferscale.protocol.deletion import DeleteRequest as DeleteRequest
from inferscale.protocol.deletion import DeleteResponse as DeleteResponse
from inferscale.protocol.deletion import DeleteWhereResponse as DeleteWhereResponse
from inferscale.protocol.moments import AsOf as AsOf
from inferscale.protocol.moments import Lifetime as Lifetime
from inferscale.protocol.moments import Reading as Reading
from inferscale.protocol.paging import Paging as Paging
from inferscale.protocol.recall import HandleItem as HandleItem
from inferscale.protocol.recall import HandleResponse as HandleResponse
from inferscale.protocol.recall import RecallRequest as RecallRequest
from inferscale.protocol.scope import Scope as Scope
from inferscale.protocol.scope import Wire as Wire
from inferscale.protocol.values import MAX_ID_CHARS as MAX_ID_CHARS
from inferscale.protocol.values import MAX_RECALL_ITEMS as MAX_RECALL_ITEMS
from inferscale.protocol.values import MAX_TEXT_BYTES as MAX_TEXT_BYTES
from inferscale.protocol.values import SCOPE_IDS as SCOPE_IDS
from inferscale.protocol.values import AddStatus as AddStatus
from inferscale.protocol.values import ExtractionState as ExtractionState
from inferscale.protocol.values import HandleBlock as HandleBlock
from inferscale.protocol.values import Id as Id
from inferscale.protocol.values import KvState as KvState
from inferscale.protocol.values import MaxTokens as MaxTokens
from inferscale.protocol.values import MemoryKind as MemoryKind
from inferscale.protocol.values import MemoryStatus as MemoryStatus
from inferscale.protocol.values import SearchMode as SearchMode
from inferscale.protocol.values import Text as Text
from inferscale.protocol.values import check_text as check_text


class Message(BaseModel):
    """One chat message. `content` may be OpenAI content parts; only their text is kept."""

    model_config = ConfigDict(extra="allow")
    role: str = "user"
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    timestamp: AwareDatetime | None = None
    """When it was said, with its offset; kept with what is extracted from it."""


class AddRequest(Scope, Lifetime):
    """`POST /v1/memories`."""

    messages: str | Message | list[Message]
    metadata: dict[str, Any] | None = None
    infer: bool | None = None
    """True: extract facts with an LLM. False: store verbatim. None: as the server is set up."""
    async_mode: bool = False
    """True: answer once the messages are stored; their facts are extracted in the background."""


class Memory(BaseModel):
    """One memory as the API returns it."""

    id: str
    memory: str
    hash: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None
    role: str | None = None
    actor_id: str | None = None
    metadata: dict[str, Any] | None = None
    version: int = 1
    kv_state: KvState = "queued"
    status: MemoryStatus = "live"
    kind: MemoryKind = "memory"
    said_at: datetime | None = None
    """When the message was said that this comes from, if the client told."""
    superseded_by: str | None = None
    expires_at: datetime | None = None
    """When it ceases to be there; None: never."""
    created_at: datetime
    updated_at: datetime


class ScoreDetails(BaseModel):
    """What a score is made of: `similarity` is the cosine, `keyword` the shared words (0 to 1),
    `recency` the bonus for being new (0 to 1), if one was asked for."""

    similarity: float
    keyword: float
    recency: float | None = None


class ScoredMemory(Memory):
    """A search hit. `score` is at most 1, higher is closer: the cosine, raised by shared words."""

    score: float
    details: ScoreDetails | None = None
    """With `explain`."""
    rerank_score: float | None = None
    """With `rerank`: what the reranker gave it, on a scale of its own."""


class AddedMemory(BaseModel):
    """What `add` did with one message or fact."""

    id: str
    memory: str
    event: Literal["ADD", "NOOP"]
    role: str | None = None
    actor_id: str | None = None
    kv_state: KvState = "queued"
    status: AddStatus = "stored"
    error: str | None = None
    """Why nothing was extracted; the message is stored as it is, and adding it again is safe."""
    sources: list[str] = []
    """Ids of the messages that a fact comes from."""
    supersedes: list[str] = []
    """Ids of memories that this one made untrue: out of search from now on, kept in history."""


class ExtractionError(BaseModel):
    code: str
    message: str


class Extraction(BaseModel):
    """How the extraction of one request stands. `GET /v1/extractions/{id}` shows it again."""

    id: str
    state: ExtractionState
    facts: int = 0
    """How many facts were found that the messages support."""
    dropped: int = 0
    """How many more the LLM gave that the messages do not support."""
    error: ExtractionError | None = None
    turns: list[str] = []
    """Ids of the messages, as far as they still exist."""
    created_at: datetime
    updated_at: datetime


class AddResponse(BaseModel):
    """`extraction` is there if the request asked for one and had any text."""

    results: list[AddedMemory]
    extraction: Extraction | None = None


class ListRequest(Scope, Reading, Paging):
    """`POST /v1/memories/list`: as `GET /v1/memories`, with a filter."""

    filters: dict[str, Any] | None = None


class ListResponse(BaseModel):
    """A page in creation order, newest first. `next_cursor` is None on the last page; `total`
    counts the whole list, as it was when its first page was asked for."""

    results: list[Memory]
    total: int
    next_cursor: str | None = None


class SearchRequest(Scope, Reading):
    """`POST /v1/memories/search`."""

    query: Text
    limit: int = Field(default=10, ge=0, le=MAX_RECALL_ITEMS)
    threshold: float | None = Field(default=None, ge=-1, le=1)
    filters: dict[str, Any] | None = None
    mode: SearchMode = "hybrid"
    diversity: float = Field(default=0, ge=0, le=1)
    """How much a hit loses for being like a better one: 0 not at all, 1 nothing else counts."""
    recency_days: float | None = Field(default=None, gt=0, le=36_500)
    """Prefer what is new: after so many days the bonus is half. None: age does not count."""
    rerank: bool = False
    """True: have the server's reranker order the best; goes with neither of the two above."""
    explain: bool = False
    """True: say what each score is made of."""


class SearchResponse(BaseModel):
    results: list[ScoredMemory]


class UpdateRequest(Wire, Lifetime):
    """`PATCH /v1/memories/{id}`. Fields left out stay as they are; `metadata` replaces.

    `expires_at: null` makes it live for good.
    """

    text: Text | None = None
    metadata: dict[str, Any] | None = None


class HistoryEntry(BaseModel):
    memory_id: str
    version: int
    event: Literal["ADD", "UPDATE", "REPLACE", "DELETE", "EXPIRE", "EXTRACT"]
    """REPLACE: a newer memory made it untrue. EXPIRE: its time was over, it is deleted.
    EXTRACT: a message gave way to its facts."""
    old_memory: str | None = None
    new_memory: str | None = None
    created_at: datetime


class HistoryResponse(BaseModel):
    results: list[HistoryEntry]


class BuildStatus(BaseModel):
    """`GET /v1/builds`: how far the tenant's KV is behind its text."""

    queued: int
    building: int
    ready: int
    failed: int
