"""What one process knows of a scope in memory: an index, and the fields that filters read.

Owns no truth: a view is brought up to date from the store's change numbers before every use, so it
needs no news from writers, whichever process they run in.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.index import IndexFactory, VectorIndex
from inferscale_sidecar.index.base import SCORE_DIGITS
from inferscale_sidecar.index.bm25 import Bm25Index
from inferscale_sidecar.service.filter import Predicate
from inferscale_sidecar.service.ranking import Candidate, Ranking, age_days, best, pool_size, score
from inferscale_sidecar.store.base import MemoryPort
from inferscale_sidecar.store.records import IndexRow, ScopeChanges, Vector

DEFAULT_MAX_VECTORS = 1_000_000
_MANY = 500


@dataclass(frozen=True)
class Query:
    """What is looked for, as text and as its embedding."""

    text: str
    vector: Vector


class ScopeView:
    """The memories of one list (`Scope.owner`) of one tenant. Use it while holding `lock`."""

    def __init__(self, index: VectorIndex) -> None:
        self.lock = asyncio.Lock()
        self.seq: int | None = None
        self._index = index
        self._words = Bm25Index()
        self._rows: dict[int, IndexRow] = {}
        self._num_of: dict[str, int] = {}
        self._ends: list[tuple[datetime, int]] = []  # a heap: what never expires costs nothing

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, changes: ScopeChanges) -> None:
        """Take over what changed; applying the same changes twice is harmless."""
        gone = {self._num_of[i] for i in changes.deleted if i in self._num_of}
        for row in changes.rows:  # one that was deleted and came back has another number
            if self._num_of.get(row.memory_id, row.num) != row.num:
                gone.add(self._num_of[row.memory_id])
        self._forget(sorted(gone))
        if changes.rows:
            vectors = np.stack([row.vector for row in changes.rows])
            numbers = [row.num for row in changes.rows]
            self._index.put(numbers, vectors)
            self._words.put(numbers, [row.text for row in changes.rows])
        for row in changes.rows:
            self._rows[row.num] = row
            self._num_of[row.memory_id] = row.num
            if row.expires_at is not None:
                heapq.heappush(self._ends, (row.expires_at, row.num))
        self.seq = changes.seq

    def drop_expired(self, now: datetime) -> None:
        """Forget what has expired; the store does not tell."""
        gone = set()
        while self._ends and self._ends[0][0] <= now:
            _, num = heapq.heappop(self._ends)
            row = self._rows.get(num)  # it may have changed since, and live longer now
            if row is not None and row.expires_at is not None and row.expires_at <= now:
                gone.add(num)
        if gone:
            self._forget(sorted(gone))

    def _forget(self, numbers: Sequence[int]) -> None:
        self._index.remove(numbers)
        self._words.remove(numbers)
        for num in numbers:
            del self._num_of[self._rows.pop(num).memory_id]

    def search(
        self,
        query: Query,
        k: int,
        *,
        scope: Scope,
        passes: Predicate | None,
        ranking: Ranking,
        now: datetime,
    ) -> list[Candidate]:
        """The `k` best of those in `scope` that pass; ids of the scope are all that can match."""
        allowed = self.allowed(scope, passes)
        pool = pool_size(k)
        similarity: dict[int, float] = {}
        keyword: dict[int, float] = {}
        if ranking.mode != "keyword":
            similarity = dict(self._index.search(query.vector, pool, allowed=allowed))
        if ranking.mode != "dense":
            keyword = dict(self._words.search(query.text, pool, allowed=allowed))
        similarity |= self._similarities([n for n in keyword if n not in similarity], query.vector)
        found = [
            score(num, cosine, keyword.get(num, 0.0), self._age_days(num, now, ranking), ranking)
            for num, cosine in similarity.items()
        ]
        return best(found, k, ranking, lambda num: self._rows[num].vector)

    def _similarities(self, numbers: Sequence[int], vector: Vector) -> dict[int, float]:
        if not numbers:
            return {}
        cosines = np.stack([self._rows[num].vector for num in numbers]) @ vector
        rounded = np.clip(np.round(cosines.astype(np.float64), SCORE_DIGITS), -1.0, 1.0)
        return dict(zip(numbers, rounded.tolist(), strict=True))

    def _age_days(self, num: int, now: datetime, ranking: Ranking) -> float:
        if ranking.recency_days is None:
            return 0.0  # nobody asks
        row = self._rows[num]
        return age_days(row.said_at or row.created_at, now)

    def row(self, num: int) -> IndexRow:
        """The row behind a label that `search` gave."""
        return self._rows[num]

    def allowed(self, scope: Scope, passes: Predicate | None) -> Collection[int] | None:
        """Labels of what `scope` covers and what passes; None if that is everything."""
        narrower = len(scope.given) > 1
        if not narrower and passes is None:
            return None
        rows: Iterable[IndexRow] = self._rows.values()
        if narrower:
            rows = [row for row in rows if scope.covers(row.scope)]
        return [row.num for row in rows if passes is None or passes(MemoryFields(row))]


class ScopeViews:
    """Views by (tenant, list), the least recently used ones dropped beyond `max_vectors`."""

    def __init__(
        self,
        store: MemoryPort,
        *,
        dim: int,
        create_index: IndexFactory,
        max_vectors: int = DEFAULT_MAX_VECTORS,
    ) -> None:
        self._store = store
        self._dim = dim
        self._create_index = create_index
        self._max_vectors = max_vectors
        self._views: OrderedDict[tuple[str, str], ScopeView] = OrderedDict()

    def get(self, tenant_id: str, scope: Scope) -> ScopeView:
        """The view of the scope's list, perhaps out of date: `refresh` it under its lock."""
        key = (tenant_id, scope.owner)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = ScopeView(self._create_index(self._dim))
        self._views.move_to_end(key)
        return view

    async def refresh(self, view: ScopeView, tenant_id: str, scope: Scope, now: datetime) -> None:
        """Catch up with the store, and with the time."""
        changes = await self._store.changes(tenant_id, scope, since=view.seq, now=now)
        await fill(view, changes)  # the caller holds the lock, so nobody else looks meanwhile
        view.drop_expired(now)
        self._shrink()

    async def snapshot(self, rows: Sequence[IndexRow]) -> ScopeView:
        """A view for one use, of what the present does not show."""
        view = ScopeView(self._create_index(self._dim))
        await fill(view, ScopeChanges(0, rows, ()))
        return view

    def _shrink(self) -> None:
        total = sum(len(view) for view in self._views.values())
        while total > self._max_vectors and len(self._views) > 1:
            _, oldest = self._views.popitem(last=False)
            total -= len(oldest)


async def fill(view: ScopeView, changes: ScopeChanges) -> None:
    """Apply changes; many of them in a thread."""
    if len(changes.rows) > _MANY:
        await asyncio.to_thread(view.apply, changes)
    else:
        view.apply(changes)


class MemoryFields:
    """What a filter can ask about a memory. Its own fields win over metadata of the same name.

    Nothing is computed before it is asked for: a filter looks at every memory of a scope.
    """

    __slots__ = ("_row",)

    def __init__(self, row: IndexRow | Memory) -> None:
        self._row = row

    def get(self, key: str, default: Any) -> Any:
        own = _OWN_FIELDS.get(key)
        if own is not None:
            return own(self._row)
        return (self._row.metadata or {}).get(key, default)


def _scope_id(name: str) -> "Callable[[IndexRow | Memory], str | None]":
    def read(row: IndexRow | Memory) -> str | None:
        value: str | None = getattr(row.scope, name)
        return value

    return read


_OWN_FIELDS: dict[str, Callable[[IndexRow | Memory], str | None]] = {
    **{name: _scope_id(name) for name in SCOPE_IDS},
    "role": lambda row: row.role,
    "actor_id": lambda row: row.actor_id,
    "created_at": lambda row: row.created_at.isoformat(),
    "updated_at": lambda row: row.updated_at.isoformat(),
}
