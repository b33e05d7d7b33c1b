"""The reading methods of `AsyncMemory`: those of `_read_client`, awaited.

Owns signatures only; requests are made by `_operations`, several for one call by `_exchange`.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import _entity_operations, _exchange, _operations
from inferscale._dialect import one_limit
from inferscale._handle import MemoryHandle
from inferscale._listing import Time, list_page, listing, reading
from inferscale._results import EntityList, ListResult, MemoryRecord, SearchResult
from inferscale._transport import AsyncTransport
from inferscale.protocol.entities import EntityType
from inferscale.protocol.memory import SearchMode


class AsyncReadMethods:
    """The part of `AsyncMemory` that finds what was remembered."""

    _transport: AsyncTransport

    async def get(
        self, memory_id: str, *, show_expired: bool = False, as_of: Time = None
    ) -> MemoryRecord | None:
        """As `Memory.get`."""
        return await self._transport.call(
            _operations.get(memory_id, show_expired=show_expired, as_of=as_of)
        )

    async def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        cursor: str | None = None,
        offset: int | None = None,
        show_expired: bool = False,
        as_of: Time = None,
        **mem0: Any,
    ) -> ListResult:
        """As `Memory.get_all`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        what = listing(scope, filters, reading(show_expired, as_of), mem0)
        size = one_limit(None, limit=limit, top_k=top_k)
        if size is None and cursor is None and offset is None:
            return await self._transport.run(_exchange.list_all(what, self._transport.policy))
        return await self._transport.call(list_page(what, limit=size, cursor=cursor, offset=offset))

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        mode: SearchMode | None = None,
        diversity: float | None = None,
        recency_days: float | None = None,
        rerank: bool | None = None,
        explain: bool | None = None,
        show_expired: bool = False,
        as_of: Time = None,
        **mem0: Any,
    ) -> SearchResult:
        """As `Memory.search`."""
        operation = _operations.search(
            query,
            scope={"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id},
            limit=one_limit(None, limit=limit, top_k=top_k),
            threshold=threshold,
            filters=filters,
            ranking={
                "mode": mode,
                "diversity": diversity,
                "recency_days": recency_days,
                "rerank": rerank or None,
                "explain": explain,
            },
            show_expired=show_expired,
            as_of=as_of,
            extra=mem0,
        )
        return await self._transport.call(operation)

    async def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        mode: SearchMode | None = None,
        diversity: float | None = None,
        recency_days: float | None = None,
        rerank: bool | None = None,
        max_tokens: int | None = None,
        as_of: Time = None,
        ttl_s: int | None = None,
    ) -> MemoryHandle:
        """As `Memory.recall`."""
        operation = _operations.recall(
            query,
            scope={"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id},
            k=k,
            threshold=threshold,
            filters=filters,
            ranking={
                "mode": mode,
                "diversity": diversity,
                "recency_days": recency_days,
                "rerank": rerank or None,
            },
            max_tokens=max_tokens,
            as_of=as_of,
            ttl_s=ttl_s,
        )
        return await self._transport.call(operation)

    async def entities(
        self,
        type: EntityType | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EntityList:
        """As `Memory.entities`."""
        if limit is None and cursor is None:
            policy = self._transport.policy
            return await self._transport.run(_entity_operations.list_all(type, policy))
        return await self._transport.call(
            _entity_operations.list_page(type, limit=limit, cursor=cursor)
        )
