"""Lists of a scope, page by page, filtered or not.

Owns which filters the database decides and which are looked at in memory; both mean the same.
Invariant: a page of an unfiltered list costs what is on it; the whole is counted once, for the
first page, and the cursor carries the number on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from inferscale.protocol.paging import MAX_PAGE
from inferscale_sidecar.core import Moment, Scope, Tenant
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.filter import predicate
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.store.base import MemoryPort
from inferscale_sidecar.store.conditions import Condition, to_sql
from inferscale_sidecar.store.records import SEARCHABLE, Page


@dataclass(frozen=True)
class PageRequest:
    """Which page.

    Args:
        limit: at most so many memories, 1 to `MAX_PAGE`.
        before: the last page's `next_before`; None for the first page.
        total: the last page's `total`; None to count.
        offset: how many to leave out at the start; not together with `before`.
    """

    limit: int = 100
    before: int | None = None
    total: int | None = None
    offset: int = 0

    def check(self) -> None:
        """Raises InvalidInput for a page that there cannot be."""
        if not 1 <= self.limit <= MAX_PAGE:
            raise InvalidInput(f"limit is {self.limit}; it must be 1 to {MAX_PAGE}", param="limit")
        if self.offset < 0 or (self.offset and self.before is not None):
            raise InvalidInput(
                f"offset is {self.offset}; it must be 0 or more, and goes with no cursor",
                param="offset",
            )


class Lister:
    """Lists.

    Args:
        store: the truth.
        searcher: has the memories' fields in memory, for filters on metadata.
        fingerprint: names the engine whose KV state is shown; None while there is none.
    """

    def __init__(
        self, store: MemoryPort, searcher: Searcher, fingerprint: Callable[[], str | None]
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._fingerprint = fingerprint

    async def page(
        self,
        tenant: Tenant,
        scope: Scope,
        condition: Condition | None,
        request: PageRequest,
        at: Moment,
    ) -> Page:
        """One page, newest first."""
        if condition is None or to_sql(condition) is not None:
            page = await self._store.list_memories(
                tenant.id,
                scope,
                limit=request.limit,
                before=request.before,
                offset=request.offset,
                condition=condition,
                count=request.total is None,
                at=at,
                fingerprint=self._fingerprint(),
            )
            return page if request.total is None else replace(page, total=request.total)
        found = await self._searcher.matching(tenant, scope, predicate(condition), at)
        total = len(found) if request.total is None else request.total
        if request.before is not None:
            found = [each for each in found if each[0] < request.before]
        chosen = found[request.offset : request.offset + request.limit]
        known = await self._store.get_memories(
            tenant.id,
            [memory_id for _, memory_id in chosen],
            at=at,
            fingerprint=self._fingerprint(),
        )
        there = [memory for _, i in chosen if (memory := known.get(i))]
        more = len(found) > request.offset + request.limit
        return Page(
            [memory for memory in there if memory.status in SEARCHABLE],
            total,
            chosen[-1][0] if chosen and more else None,
        )

    async def ids(
        self, tenant: Tenant, scope: Scope, condition: Condition, at: Moment
    ) -> list[str]:
        """All that pass, newest first."""
        if to_sql(condition) is None:
            found = await self._searcher.matching(tenant, scope, predicate(condition), at)
            return [memory_id for _, memory_id in found]
        ids: list[str] = []
        before: int | None = None
        while True:
            page = await self._store.list_memories(
                tenant.id,
                scope,
                limit=MAX_PAGE,
                before=before,
                condition=condition,
                count=False,
                at=at,
            )
            ids += [memory.id for memory in page.memories]
            if (before := page.next_before) is None:
                return ids
