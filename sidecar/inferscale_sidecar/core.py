"""The nouns: tenants, scopes, memories, compositions. Plain frozen data, no I/O, no framework."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inferscale.protocol.memory import KvState, MemoryKind, MemoryStatus
from inferscale_sidecar.scope import Scope as Scope


@dataclass(frozen=True)
class Tenant:
    """Who is asking. `salt` (32 random bytes) keeps equal texts of two tenants apart."""

    id: str
    name: str
    salt: bytes


@dataclass(frozen=True)
class Memory:
    """One memory in its current version. `live` and `pending` ones are found, the others kept."""

    id: str
    tenant_id: str
    scope: Scope
    text: str
    version: int
    created_at: datetime
    updated_at: datetime
    role: str | None = None
    actor_id: str | None = None
    metadata: dict[str, Any] | None = None
    kv_state: KvState = "queued"
    status: MemoryStatus = "live"
    kind: MemoryKind = "memory"
    said_at: datetime | None = None
    superseded_by: str | None = None
    expires_at: datetime | None = None

    def has_expired(self, now: datetime) -> bool:
        """True from `expires_at` on."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True)
class Moment:
    """When a request reads: one look at the clock, so that its parts agree on what has expired.

    Args:
        now: aware UTC time.
        show_expired: also what has expired, as long as it is not swept.
        as_of: an earlier time, to be read as it was then; None: the present.
    """

    now: datetime
    show_expired: bool = False
    as_of: datetime | None = None

    @property
    def is_present(self) -> bool:
        """True if it shows just what is there now."""
        return self.as_of is None and not self.show_expired

    @property
    def time(self) -> datetime:
        """The time that is read."""
        return self.as_of or self.now


@dataclass(frozen=True)
class ScoreDetails:
    """What a score is made of: cosine, shared words (0 to 1), and newness if asked for (0 to 1)."""

    similarity: float
    keyword: float
    recency: float | None = None


@dataclass(frozen=True)
class Hit:
    """A memory that a search found. `score` is at most 1, higher is closer.

    `rerank_score` is there if a reranker has read it; it has a scale of its own.
    """

    memory: Memory
    score: float
    details: ScoreDetails | None = None
    rerank_score: float | None = None


@dataclass(frozen=True)
class CompositionItem:
    """One line of a memory block: a version of a memory, frozen."""

    memory_id: str
    version: int
    text: str
    score: float


@dataclass(frozen=True)
class Block:
    """Pinned text. It is part of each composition whose ids include all ids of one of `scopes`.

    `version` counts changes of what is shown; `limit` is in characters.
    """

    id: str
    tenant_id: str
    label: str
    value: str
    version: int
    limit: int
    scopes: tuple[Scope, ...]
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    read_only: bool = False
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class Thread:
    """A conversation of a user, perhaps with an agent, in an app; its id is the run in `scope`."""

    id: str
    tenant_id: str
    scope: Scope
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class ThreadMessage:
    """A message of a thread, word for word."""

    id: str
    role: str
    content: str
    created_at: datetime
    name: str | None = None
    said_at: datetime | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class PinnedBlock:
    """A version of a block in a composition, frozen."""

    block_id: str
    version: int
    label: str
    value: str
    description: str | None = None


@dataclass(frozen=True)
class Composition:
    """What a handle stands for: pinned blocks, then an ordered list, best last. Both always render
    the same."""

    handle: str
    tenant_id: str
    scope: Scope
    items: tuple[CompositionItem, ...]
    created_at: datetime
    expires_at: datetime
    blocks: tuple[PinnedBlock, ...] = ()
    as_of: datetime | None = None


@dataclass(frozen=True)
class Tail:
    """Whose conversation it is whose end the bank keeps (`service/chat_turns.py`).

    Args:
        scope: who forgets any of it forgets the tail.
        asked_at: aware UTC time at which the request came that has the conversation.
        keep_s: for how many seconds it is kept.
    """

    scope: Scope
    asked_at: datetime
    keep_s: float


@dataclass(frozen=True)
class BuildItem:
    """A memory version whose KV is wanted. `owner` as in `Scope.owner`."""

    memory_id: str
    version: int
    tenant_id: str
    owner: str
    text: str


@dataclass(frozen=True)
class KvItem:
    """A memory version whose KV the bank holds, under `key`, for the engine `fingerprint`.

    `context_ids` are the memory ids it was encoded behind: deleting one makes this item stale.
    """

    memory_id: str
    version: int
    tenant_id: str
    fingerprint: str
    key: str
    num_tokens: int
    context_ids: tuple[str, ...] = ()
