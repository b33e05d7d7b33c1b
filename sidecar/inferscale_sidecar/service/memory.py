"""Remember, read, change, forget, search.

Owns the order of checks, embedding and writing. Invariants: everything is bound to a tenant and a
non-empty scope; a write is durable and visible to the next read when its method returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from inferscale_sidecar.core import Hit, Memory, Moment, Scope, Tenant
from inferscale_sidecar.errors import InvalidInput, NotFound
from inferscale_sidecar.service.filter import parse_filter
from inferscale_sidecar.service.listing import PageRequest
from inferscale_sidecar.service.memory_add import MemoryAdder
from inferscale_sidecar.service.message import (
    check_metadata,
    end_of_life,
    need_scope,
    read_moment,
)
from inferscale_sidecar.service.ranking import Ranking
from inferscale_sidecar.service.search import DEFAULT_RANKING
from inferscale_sidecar.store.records import (
    BuildCounts,
    EntityPage,
    Page,
    Removed,
    VersionEvent,
)


class MemoryService(MemoryAdder):
    """The use cases of memory, for one store and one embedder.

    Args:
        store: the truth, started and bound to the embedder.
        embedder: turns texts into vectors.
        searcher: shared with recall.
        metrics: where operations are counted.
        on_write: called after each committed write; wakes the build queue. Must not block.
        fingerprint: names the engine whose KV state is shown; None while there is none.
        is_kv_off: True if nothing is built or injected at all.
        facts: extracts facts; None if there is no LLM to do it.
        infers: whether facts are extracted when a request does not say.
        clock: aware UTC time; read once for each request.
    """

    async def get(
        self,
        tenant: Tenant,
        memory_id: str,
        *,
        show_expired: bool = False,
        as_of: datetime | None = None,
    ) -> Memory:
        """Raises NotFound, also for another tenant's memory, and one that was not there yet."""
        with self._metrics.operation("get"):
            at = self._at(show_expired=show_expired, as_of=as_of)
            found = await self._store.get_memories(
                tenant.id, [memory_id], at=at, fingerprint=self._fingerprint()
            )
            if memory_id not in found:
                raise _not_found(memory_id)
            return self._shown(found[memory_id])

    async def list(
        self,
        tenant: Tenant,
        scope: Scope,
        *,
        limit: int = 100,
        before: int | None = None,
        total: int | None = None,
        offset: int = 0,
        filters: Mapping[str, Any] | None = None,
        show_expired: bool = False,
        as_of: datetime | None = None,
    ) -> Page:
        """A page of the scope, newest first.

        Args:
            limit, before, total, offset: as in `PageRequest`.
            filters: only what passes.

        Raises:
            InvalidInput: no scope, a page that there cannot be, or a filter that makes no sense.
        """
        with self._metrics.operation("list"):
            need_scope(scope)
            page = PageRequest(limit, before, total, offset)
            page.check()
            condition, at = parse_filter(filters), self._at(show_expired=show_expired, as_of=as_of)
            found = await self._lister.page(tenant, scope, condition, page, at)
            return replace(found, memories=[self._shown(memory) for memory in found.memories])

    async def update(
        self,
        tenant: Tenant,
        memory_id: str,
        *,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        clear_metadata: bool = False,
        expires_at: datetime | None = None,
        ttl_s: int | None = None,
        never_expires: bool = False,
    ) -> Memory:
        """Change the text (a new version), replace the metadata, set when it expires.

        Raises:
            InvalidInput: nothing to change, a value that cannot be stored, or a time gone by.
            NotFound: no such memory.
            Conflict: the scope holds the new text already.
            QuotaExceeded, TooLarge: over one of the tenant's limits.
        """
        with self._metrics.operation("update"):
            keep_metadata = metadata is None and not clear_metadata
            end = end_of_life(expires_at, ttl_s, now=self._clock())
            keep_expiry = end is None and not never_expires
            if text is None and keep_metadata and keep_expiry:
                raise InvalidInput(
                    "an update needs text, metadata, expires_at or ttl_s; none was given"
                )
            vector = None
            if text is not None:
                vector = (await self._embedder.embed([text]))[0]
            memory = await self._store.update_memory(
                tenant.id,
                memory_id,
                text=text,
                vector=vector,
                metadata=check_metadata(metadata),
                keep_metadata=keep_metadata,
                expires_at=end,
                keep_expiry=keep_expiry,
                fingerprint=self._fingerprint(),
            )
            if memory is None:
                raise _not_found(memory_id)
            self._on_write()
            return self._shown(memory)

    async def delete(self, tenant: Tenant, memory_id: str) -> Removed:
        """Remove a memory and all that derives from it. Raises NotFound."""
        with self._metrics.operation("delete"):
            removed = await self._store.delete_memory(tenant.id, memory_id)
            if removed is None:
                raise _not_found(memory_id)
            self._on_write()
            return removed

    async def delete_all(self, tenant: Tenant, scope: Scope) -> Removed:
        """Remove all memories, blocks and threads of a scope. Raises InvalidInput without one."""
        with self._metrics.operation("delete"):
            need_scope(scope)
            removed = await self._store.delete_scope(tenant.id, scope)
            if removed != Removed(0, 0):
                self._on_write()
            return removed

    async def delete_where(
        self, tenant: Tenant, scope: Scope, filters: Mapping[str, Any], *, dry_run: bool = False
    ) -> tuple[Sequence[str], Removed]:
        """Remove what is listed in a scope and passes a filter, newest first.

        Args:
            dry_run: True to remove nothing, and only say what would go.

        Returns:
            The ids, and the counts of what went.

        Raises:
            InvalidInput: no scope, or a filter that is empty or makes no sense.
        """
        with self._metrics.operation("delete"):
            need_scope(scope)
            condition = parse_filter(filters)
            if condition is None:
                raise InvalidInput(
                    "filters is empty; to remove a whole scope use DELETE /v1/memories",
                    param="filters",
                )
            ids = await self._lister.ids(tenant, scope, condition, Moment(self._clock()))
            if dry_run or not ids:
                return ids, Removed(0, 0)
            removed = await self._store.delete_memories(tenant.id, ids)
            self._on_write()
            return ids, removed

    async def history(self, tenant: Tenant, memory_id: str) -> Sequence[VersionEvent]:
        """What happened to a memory, oldest first; without texts once deleted. Raises NotFound."""
        with self._metrics.operation("history"):
            events = await self._store.history(tenant.id, memory_id)
            if not events:
                raise _not_found(memory_id)
            return events

    async def search(
        self,
        tenant: Tenant,
        scope: Scope,
        query: str,
        *,
        limit: int = 10,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        ranking: Ranking = DEFAULT_RANKING,
        show_expired: bool = False,
        as_of: datetime | None = None,
    ) -> Sequence[Hit]:
        """The memories closest to the query, best first. Raises InvalidInput as `Searcher` does."""
        with self._metrics.operation("search"):
            need_scope(scope)
            hits = await self._searcher.search(
                tenant,
                scope,
                query,
                k=limit,
                threshold=threshold,
                filters=filters,
                ranking=ranking,
                at=self._at(show_expired=show_expired, as_of=as_of),
            )
            return [replace(hit, memory=self._shown(hit.memory)) for hit in hits]

    def _at(self, **moment: Any) -> Moment:
        return read_moment(self._clock(), **moment)

    async def entities(
        self, tenant: Tenant, kind: str | None, *, limit: int = 100, after: int | None = None
    ) -> EntityPage:
        """A page of the users, agents, runs and apps with memories, oldest first."""
        with self._metrics.operation("list"):
            id_name = f"{kind}_id" if kind else None
            return await self._store.list_entities(tenant.id, id_name, limit=limit, after=after)

    async def builds(self, tenant: Tenant) -> BuildCounts:
        """How far the tenant's KV is behind its text. Nothing is, where nothing is built."""
        if self._is_kv_off():
            return BuildCounts()
        return await self._store.build_counts(tenant.id, self._fingerprint())


def _not_found(memory_id: str) -> NotFound:
    return NotFound(f"no memory {memory_id[:64]!a}; it does not exist or was deleted")
