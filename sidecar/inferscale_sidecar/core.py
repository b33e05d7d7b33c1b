"""The nouns: tenants, scopes, memories, compositions. Plain frozen data, no I/O, no framework."""

from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from inferscale.protocol.memory import SCOPE_IDS, KvState, MemoryKind, MemoryStatus


@dataclass(frozen=True)
class Tenant:
    """Who is asking. `salt` (32 random bytes) keeps equal texts of two tenants apart."""

    id: str
    name: str
    salt: bytes


@dataclass(frozen=True)
class Scope:
    """Whose memory inside a tenant. Given ids are ANDed; None means "any", never "*"."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None

    @classmethod
    def of(cls, named: Any) -> "Scope":
        """The ids that a row, a request or a line of an export has as attributes."""
        return cls(*[getattr(named, name) for name in SCOPE_IDS])

    @property
    def ids(self) -> dict[str, Any]:
        """All ids by name, in the order of `SCOPE_IDS`; each a string or None."""
        return dict(vars(self))

    @property
    def given(self) -> dict[str, str]:
        """Those ids that are not None."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def thread_ids(self) -> dict[str, Any]:
        """All ids but the run, which a thread is itself: whose it is."""
        return {name: value for name, value in vars(self).items() if name != "run_id"}

    @property
    def key(self) -> list[str | None]:
        """What digests of a scope are made of: three ids, and those behind them as far as given.

        Digests that were kept when there were only three are found again so.
        """
        ids: list[str | None] = list(vars(self).values())
        while len(ids) > 3 and ids[-1] is None:
            ids.pop()
        return ids

    def covers(self, other: "Scope") -> bool:
        """True if every id given here is the other's."""
        return all(
            mine is None or mine == getattr(other, name) for name, mine in vars(self).items()
        )

    @property
    def parts(self) -> "list[Scope]":
        """Every scope that is made of some of the given ids, this one included."""
        ids = vars(self).values()
        chosen = product(*((None, value) if value is not None else (None,) for value in ids))
        return [Scope(*some) for some in chosen if any(some)]

    @property
    def owner(self) -> str:
        """Name of the list whose neighbours an item is encoded behind, e.g. `user:alice`."""
        for name, value in self.given.items():
            return f"{name.removesuffix('_id')}:{value}"
        raise ValueError(f"a scope needs at least one of {', '.join(SCOPE_IDS)}")


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
