"""Requests and responses of the memory endpoints (`/v1/memories`, `/v1/recall`, `/v1/handles`).

Shapes follow Mem0 (`{"results": [...]}`, `memory` for the text, `event`), with what it lacks added:
cursors, totals, versions and the state of an item's KV.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

MAX_ID_CHARS = 256
MAX_TEXT_BYTES = 65_536
MAX_RECALL_ITEMS = 1_000

KvState = Literal["queued", "building", "ready", "failed", "off"]
"""Where an item's KV stands. Text is served in every state; only `ready` can be injected."""

MemoryKind = Literal["memory", "fact", "turn"]
"""Stored verbatim, extracted from messages, or a message that facts are extracted from."""

MemoryStatus = Literal["live", "pending", "source", "superseded"]
"""`pending`: a message whose facts are being extracted; it is found like a `live` memory.
`source`: a message whose facts are stored. `superseded`: a fact that a newer one made untrue. Both
are kept, and read by id, but no longer found."""

AddStatus = Literal["stored", "extracted", "raw", "pending"]
"""`raw`: extraction failed, the message itself is stored; `pending`: its facts are yet to come."""

ExtractionState = Literal["pending", "done", "failed"]


def _check_id(value: str) -> str:
    """An id names exactly one scope: no wildcard, no blank, nothing invisible."""
    if not value or value == "*" or any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError(
            f"id {value!r} must be non-empty, without whitespace or control characters, and not "
            "'*': ids are not patterns"
        )
    return value


def check_text(value: str) -> str:
    """Text that every store and tokenizer can hold: valid Unicode, no NUL, not blank."""
    if "\x00" in value:
        raise ValueError("text contains NUL (U+0000); remove it before storing")
    try:
        size_bytes = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text contains a lone surrogate at index {error.start}; send valid Unicode"
        ) from error
    if size_bytes > MAX_TEXT_BYTES:
        raise ValueError(
            f"text is {size_bytes} bytes, the limit is {MAX_TEXT_BYTES}; "
            "split it into several memories"
        )
    if not value.strip():
        raise ValueError("text is empty or blank")
    return value


Id = Annotated[str, Field(max_length=MAX_ID_CHARS), AfterValidator(_check_id)]
Text = Annotated[str, AfterValidator(check_text)]


class Wire(BaseModel):
    """Base of all request bodies: an unknown field is an error, never silently dropped."""

    model_config = ConfigDict(extra="forbid")


class Scope(Wire):
    """Whose memory. At least one id must be given, several are ANDed. Identity is not metadata."""

    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None


class Message(BaseModel):
    """One chat message. `content` may be OpenAI content parts; only their text is kept."""

    model_config = ConfigDict(extra="allow")
    role: str = "user"
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    timestamp: AwareDatetime | None = None
    """When it was said, with its offset; kept with what is extracted from it."""


class AddRequest(Scope):
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
    created_at: datetime
    updated_at: datetime


class ScoredMemory(Memory):
    """A search hit. `score` is cosine similarity, higher is closer."""

    score: float


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


class ListResponse(BaseModel):
    """A page in creation order, newest first. `next_cursor` is None on the last page."""

    results: list[Memory]
    total: int
    next_cursor: str | None = None


class SearchRequest(Scope):
    """`POST /v1/memories/search`."""

    query: Text
    limit: int = Field(default=10, ge=0, le=MAX_RECALL_ITEMS)
    threshold: float | None = Field(default=None, ge=-1, le=1)
    filters: dict[str, Any] | None = None


class SearchResponse(BaseModel):
    results: list[ScoredMemory]


class UpdateRequest(Wire):
    """`PATCH /v1/memories/{id}`. Fields left out stay as they are; `metadata` replaces."""

    text: Text | None = None
    metadata: dict[str, Any] | None = None


class DeleteResponse(BaseModel):
    """What was removed: `deleted` memories, `kv_items` encoded items dropped from the bank."""

    deleted: int
    kv_items: int = 0


class HistoryEntry(BaseModel):
    memory_id: str
    version: int
    event: Literal["ADD", "UPDATE", "REPLACE", "DELETE"]
    """REPLACE: a newer memory made it untrue."""
    old_memory: str | None = None
    new_memory: str | None = None
    created_at: datetime


class HistoryResponse(BaseModel):
    results: list[HistoryEntry]


class RecallRequest(Scope):
    """`POST /v1/recall`: search, order and freeze a composition."""

    query: Text
    k: int = Field(default=20, ge=0, le=MAX_RECALL_ITEMS)
    threshold: float | None = Field(default=None, ge=-1, le=1)
    filters: dict[str, Any] | None = None
    ttl_s: int = Field(default=86_400, ge=1, le=30 * 86_400)


class HandleItem(BaseModel):
    id: str
    memory: str
    score: float
    kv_state: KvState


class HandleResponse(BaseModel):
    """A handle and what it stands for. `text` is exactly the block that the model will see."""

    handle: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    items: list[HandleItem]
    text: str
    created_at: datetime
    expires_at: datetime


class BuildStatus(BaseModel):
    """`GET /v1/builds`: how far the tenant's KV is behind its text."""

    queued: int
    building: int
    ready: int
    failed: int
