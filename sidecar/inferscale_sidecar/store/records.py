"""What goes into the store and comes out of it, beyond the nouns of `core`. Plain frozen data."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from inferscale.protocol.memory import AddStatus, ExtractionState, MemoryStatus
from inferscale_sidecar.core import Memory, Scope, Tenant
from inferscale_sidecar.limits import NO_LIMITS, Limits

Vector = npt.NDArray[np.float32]
Event = Literal["ADD", "UPDATE", "REPLACE", "DELETE", "EXPIRE", "EXTRACT"]
KeyScope = Literal["read", "write", "admin"]

DEFAULT_TENANT = "default"
SEARCHABLE: tuple[MemoryStatus, ...] = ("live", "pending")
"""Status of the memories that are listed and found."""
MAX_FAILURES = 3


@dataclass(frozen=True)
class Draft:
    """A memory about to be written. `vector` is the L2-normalised embedding of `text`."""

    text: str
    vector: Vector
    role: str | None = None
    actor_id: str | None = None
    said_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Target:
    """A version of a memory that a decision was made about; the decision is void for another."""

    memory_id: str
    version: int


@dataclass(frozen=True)
class FactDraft:
    """A fact about to be written, and the places of the messages that it comes from.

    `same_as` says all that it says already, then nothing is written; `supersedes` become untrue.
    """

    draft: Draft
    sources: tuple[int, ...]
    same_as: Target | None = None
    supersedes: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Added:
    """What became of a draft. NOOP: the scope held the same text already; `memory` is that one."""

    memory: Memory
    event: Literal["ADD", "NOOP"]
    status: AddStatus = "stored"
    error: str | None = None
    sources: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extraction:
    """A request to extract facts from messages that are stored already."""

    id: str
    tenant_id: str
    scope: Scope
    state: ExtractionState
    turns: tuple[Memory | None, ...]  # None where a message was deleted since
    metadata: dict[str, Any] | None
    facts: int
    dropped: int
    error_code: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Entity:
    """Somebody of whom there are memories: `id_name` is one of `SCOPE_IDS`, `id` its value."""

    id_name: str
    id: str
    memories: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class EntityPage:
    """Entities, oldest first. `next_after` continues the list; None on the last page."""

    entities: Sequence[Entity]
    total: int
    next_after: int | None


@dataclass(frozen=True)
class IdempotencyKey:
    """A client's name for one write, and the digest of what it asked for under that name."""

    key: str
    request_hash: str


@dataclass(frozen=True)
class Page:
    """Memories, newest first. `next_before` continues the list; None on the last page."""

    memories: Sequence[Memory]
    total: int
    next_before: int | None


@dataclass(frozen=True)
class Removed:
    """Counts of what a deletion took away. `sources` are messages kept beside their facts,
    `messages` those of threads, `detached_blocks` those that stay because they are shared, `tails`
    keys of conversations' ends, of all banks."""

    memories: int
    kv_items: int
    sources: int = 0
    embeddings: int = 0
    handle_items: int = 0
    blocks: int = 0
    detached_blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0
    tails: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        mine, theirs = astuple(self), astuple(other)
        return Removed(*(a + b for a, b in zip(mine, theirs, strict=True)))


@dataclass(frozen=True)
class VersionEvent:
    """One line of a memory's history. `text` is None once the memory was deleted."""

    memory_id: str
    version: int
    event: Event
    text: str | None
    created_at: datetime


@dataclass(frozen=True)
class IndexRow:
    """A live memory as an index needs it. `num` is its position in creation order."""

    num: int
    memory_id: str
    version: int
    scope: Scope
    role: str | None
    actor_id: str | None
    metadata: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime
    said_at: datetime | None
    expires_at: datetime | None
    text: str
    vector: Vector


@dataclass(frozen=True)
class ScopeChanges:
    """What happened in a scope after a change number; `seq` is the number to continue from."""

    seq: int
    rows: Sequence[IndexRow]
    deleted: Sequence[str]


@dataclass(frozen=True)
class ApiKey:
    """An API key without its secret, which nobody has but the client."""

    id: str
    tenant_id: str
    name: str
    prefix: str
    scopes: frozenset[KeyScope]
    created_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True)
class Grant:
    """What a presented key is worth."""

    tenant: Tenant
    scopes: frozenset[KeyScope]
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class Usage:
    """What a tenant keeps: rows of each kind, and the current text of all in bytes of UTF-8."""

    memories: int
    text_bytes: int
    blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0


@dataclass(frozen=True)
class BuildCounts:
    """A tenant's live memories by the state of their KV."""

    queued: int = 0
    building: int = 0
    ready: int = 0
    failed: int = 0
