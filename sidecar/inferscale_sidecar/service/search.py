"""Finding: embed the query, search the scope's view, and check the hits against the store.

Invariant: a hit is a live memory of the tenant and scope, in the version that was scored, whatever
other processes do meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from inferscale_sidecar.core import Hit, Moment, Scope, Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import Unsupported
from inferscale_sidecar.index import FaissFlatIndex, IndexFactory
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.filter import Predicate, compile_filter
from inferscale_sidecar.service.ranking import Candidate, Ranking
from inferscale_sidecar.service.reranking import Reranking
from inferscale_sidecar.service.view import (
    DEFAULT_MAX_VECTORS,
    MemoryFields,
    Query,
    ScopeView,
    ScopeViews,
)
from inferscale_sidecar.store.base import MemoryPort
from inferscale_sidecar.store.records import SEARCHABLE, IndexRow, Vector

DEFAULT_RANKING = Ranking()
_ATTEMPTS = 8


class Searcher:
    """Hybrid search in one scope.

    Args:
        store: the truth.
        embedder: the one that the stored vectors come from.
        metrics: for the stage durations.
        fingerprint: names the engine whose KV state the hits show; None while there is none.
        create_index: makes the index of a scope.
        max_vectors: most vectors held in memory, of all scopes together.
        clock: aware UTC time, for how old a memory is.
        reranking: orders the best again if asked to; None if there is no reranker.
    """

    def __init__(
        self,
        store: MemoryPort,
        embedder: Embedder,
        metrics: Metrics,
        *,
        fingerprint: Callable[[], str | None] = lambda: None,
        create_index: IndexFactory = FaissFlatIndex,
        max_vectors: int = DEFAULT_MAX_VECTORS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        reranking: Reranking | None = None,
    ) -> None:
        self._reranking = reranking
        self._store = store
        self._embedder = embedder
        self._metrics = metrics
        self._fingerprint = fingerprint
        self._clock = clock
        self._views = ScopeViews(
            store, dim=embedder.dim, create_index=create_index, max_vectors=max_vectors
        )

    async def search(
        self,
        tenant: Tenant,
        scope: Scope,
        query: str,
        *,
        k: int,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        ranking: Ranking = DEFAULT_RANKING,
        at: Moment | None = None,
    ) -> list[Hit]:
        """The `k` memories closest to the query among those that pass, best first.

        Ties go to the newer memory. `threshold` drops hits with a lower score. What there is at
        a moment other than the present is looked through afresh, which takes its time.

        Raises:
            InvalidInput: a filter or ranking that makes no sense.
            Unsupported: `rerank` without a reranker.
        """
        reranking = self._reranking_for(ranking)
        wanted = max(k, reranking.candidates) if reranking else k
        passes, at = compile_filter(filters), at or Moment(self._clock())
        if k == 0:
            return []
        with self._metrics.stage("embed"):
            vector = (await self._embedder.embed([query]))[0]
        with self._metrics.stage("search"):
            looked_for = Query(query, vector)
            hits = await self._find(tenant, scope, looked_for, wanted, passes, ranking, at)
        hits = [hit for hit in hits if threshold is None or hit.score >= threshold]
        if reranking:
            with self._metrics.stage("rerank"):
                hits = await reranking.order(query, hits)
        return hits[:k]

    def _reranking_for(self, ranking: Ranking) -> Reranking | None:
        ranking.check()
        if ranking.rerank and self._reranking is None:
            raise Unsupported(
                "rerank needs a reranker, and this server has none; set rerank.model to a "
                "cross-encoder, or leave rerank out",
                param="rerank",
            )
        return self._reranking if ranking.rerank else None

    async def matching(
        self, tenant: Tenant, scope: Scope, passes: Predicate, at: Moment
    ) -> list[tuple[int, str]]:
        """(number, id) of all that pass in a scope, newest first."""
        if not at.is_present:
            rows: Iterable[IndexRow] = await self._store.scope_rows(tenant.id, scope, at=at)
            found = [row for row in rows if passes(MemoryFields(row))]
        else:
            view = self._views.get(tenant.id, scope)
            async with view.lock:
                await self._views.refresh(view, tenant.id, scope, at.now)
                found = [view.row(num) for num in view.allowed(scope, passes) or ()]
        return sorted(((row.num, row.memory_id) for row in found), reverse=True)

    async def alike(self, tenant: Tenant, scope: Scope, vector: Vector, *, k: int) -> list[Hit]:
        """The `k` memories of exactly this scope whose vectors are closest, best first."""
        passes, dense = compile_filter(scope.ids), Ranking(mode="dense")
        hits = await self._find(
            tenant, scope, Query("", vector), k, passes, dense, Moment(self._clock())
        )
        return [hit for hit in hits if hit.memory.scope == scope]

    async def _find(
        self,
        tenant: Tenant,
        scope: Scope,
        query: Query,
        k: int,
        passes: Predicate | None,
        ranking: Ranking,
        at: Moment,
    ) -> list[Hit]:
        view = self._views.get(tenant.id, scope)
        hits: list[Hit] = []
        for _ in range(_ATTEMPTS):
            if not at.is_present:
                view = await self._past(tenant, scope, at)
            async with view.lock:
                if at.is_present:
                    await self._views.refresh(view, tenant.id, scope, at.now)
                found = view.search(
                    query, k, scope=scope, passes=passes, ranking=ranking, now=at.time
                )
                wanted = [(view.row(each.num), each) for each in found]
            hits = await self._check(tenant, wanted, at)
            if len(hits) == len(wanted):
                break
            # Something was deleted or changed since the refresh: look again for the full k.
        return hits

    async def _past(self, tenant: Tenant, scope: Scope, at: Moment) -> ScopeView:
        """A view of another moment, for one search. Embeds the texts that have changed since."""
        rows = await self._store.scope_rows(tenant.id, scope, at=at)
        changed = [row for row in rows if not row.vector.size]
        vectors = await self._embedder.embed([row.text for row in changed])
        made = {row.num: vector for row, vector in zip(changed, vectors, strict=True)}
        rows = [replace(row, vector=made.get(row.num, row.vector)) for row in rows]
        return await self._views.snapshot(rows)

    async def _check(
        self, tenant: Tenant, wanted: Sequence[tuple[IndexRow, Candidate]], at: Moment
    ) -> list[Hit]:
        """Those that the store still has, in the version that was scored."""
        ids = [row.memory_id for row, _ in wanted]
        live = await self._store.get_memories(
            tenant.id, ids, at=at, fingerprint=self._fingerprint()
        )
        return [
            Hit(memory, each.score, each.details)
            for row, each in wanted
            if (memory := live.get(row.memory_id)) is not None
            and memory.version == row.version
            and memory.status in SEARCHABLE
        ]
