"""`/v1/memories`: decode, call `MemoryService`, encode."""

import hashlib
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query

from inferscale.protocol import memory as wire
from inferscale.protocol.paging import MAX_PAGE
from inferscale_sidecar import core
from inferscale_sidecar.api.answers import additions_of, history_of
from inferscale_sidecar.api.auth import current_tenant, writing_tenant
from inferscale_sidecar.api.cursor import counting_cursor_of, read_counting_cursor
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.message import MAX_KEY_CHARS
from inferscale_sidecar.service.ranking import Ranking
from inferscale_sidecar.store.records import Removed

Reader = Annotated[core.Tenant, Depends(current_tenant)]
Writer = Annotated[core.Tenant, Depends(writing_tenant)]


# The service checks it, for every caller; here it is only shown.
_KEY_SCHEMA: dict[str, Any] = {
    "minLength": 1,
    "maxLength": MAX_KEY_CHARS,
    "pattern": "^[ -~]+$",
}


class ItemQuery(wire.Wire, wire.Reading):
    """Query of `GET /v1/memories/{id}`."""


class ListQuery(wire.Scope, wire.Reading, wire.Paging):
    """Query of `GET /v1/memories`."""


def create_memory_router(memory: MemoryService) -> APIRouter:
    """The routes over one service."""
    router = APIRouter(tags=["memories"])
    _add_scope_routes(router, memory)
    _add_item_routes(router, memory)
    return router


def _add_scope_routes(router: APIRouter, memory: MemoryService) -> None:
    @router.post("/v1/memories")
    async def add(
        body: wire.AddRequest,
        tenant: Writer,
        idempotency_key: Annotated[str | None, Header(json_schema_extra=_KEY_SCHEMA)] = None,
    ) -> wire.AddResponse:
        added = await memory.remember(
            tenant,
            to_scope(body),
            body.messages,
            metadata=body.metadata,
            infer=body.infer,
            wait=not body.async_mode,
            expires_at=body.expires_at,
            ttl_s=body.ttl_s,
            idempotency_key=idempotency_key,
        )
        return additions_of(added)

    async def list_page(
        tenant: core.Tenant, body: ListQuery | wire.ListRequest, filters: dict[str, Any] | None
    ) -> wire.ListResponse:
        before, total = read_counting_cursor(body.cursor)
        page = await memory.list(
            tenant,
            to_scope(body),
            limit=body.limit,
            before=before,
            total=total,
            offset=body.offset,
            filters=filters,
            show_expired=body.show_expired,
            as_of=body.as_of,
        )
        return wire.ListResponse(
            results=[to_wire(each) for each in page.memories],
            total=page.total,
            next_cursor=counting_cursor_of(page.next_before, page.total),
        )

    @router.get("/v1/memories")
    async def list_memories(
        query: Annotated[ListQuery, Query()], tenant: Reader
    ) -> wire.ListResponse:
        return await list_page(tenant, query, None)

    @router.post("/v1/memories/list")
    async def list_filtered(body: wire.ListRequest, tenant: Reader) -> wire.ListResponse:
        return await list_page(tenant, body, body.filters)

    @router.delete("/v1/memories")
    async def delete_all(
        query: Annotated[wire.Scope, Query()], tenant: Writer
    ) -> wire.DeleteResponse:
        removed = await memory.delete_all(tenant, to_scope(query))
        return wire.DeleteResponse(**receipt(removed))

    @router.post("/v1/memories/delete")
    async def delete_where(body: wire.DeleteRequest, tenant: Writer) -> wire.DeleteWhereResponse:
        ids, removed = await memory.delete_where(
            tenant, to_scope(body), body.filters, dry_run=body.dry_run
        )
        return wire.DeleteWhereResponse(
            matched=len(ids), ids=list(ids[:MAX_PAGE]), dry_run=body.dry_run, **receipt(removed)
        )

    @router.post("/v1/memories/search")
    async def search(body: wire.SearchRequest, tenant: Reader) -> wire.SearchResponse:
        hits = await memory.search(
            tenant,
            to_scope(body),
            body.query,
            limit=body.limit,
            threshold=body.threshold,
            filters=body.filters,
            ranking=to_ranking(body),
            show_expired=body.show_expired,
            as_of=body.as_of,
        )
        return wire.SearchResponse(results=[_scored(hit, explain=body.explain) for hit in hits])


def _add_item_routes(router: APIRouter, memory: MemoryService) -> None:
    @router.get("/v1/memories/{memory_id}")
    async def get(
        memory_id: str, query: Annotated[ItemQuery, Query()], tenant: Reader
    ) -> wire.Memory:
        return to_wire(
            await memory.get(tenant, memory_id, show_expired=query.show_expired, as_of=query.as_of)
        )

    @router.patch("/v1/memories/{memory_id}")
    async def update(memory_id: str, body: wire.UpdateRequest, tenant: Writer) -> wire.Memory:
        changed = await memory.update(
            tenant,
            memory_id,
            text=body.text,
            metadata=body.metadata,
            clear_metadata="metadata" in body.model_fields_set and not body.metadata,
            expires_at=body.expires_at,
            ttl_s=body.ttl_s,
            never_expires="expires_at" in body.model_fields_set and body.expires_at is None,
        )
        return to_wire(changed)

    @router.delete("/v1/memories/{memory_id}")
    async def delete(memory_id: str, tenant: Writer) -> wire.DeleteResponse:
        removed = await memory.delete(tenant, memory_id)
        return wire.DeleteResponse(**receipt(removed))

    @router.get("/v1/memories/{memory_id}/history")
    async def history(memory_id: str, tenant: Reader) -> wire.HistoryResponse:
        return wire.HistoryResponse(results=history_of(await memory.history(tenant, memory_id)))

    @router.get("/v1/extractions/{extraction_id}")
    async def extraction(extraction_id: str, tenant: Reader) -> wire.AddResponse:
        return additions_of(await memory.extraction(tenant, extraction_id))

    @router.get("/v1/builds")
    async def builds(tenant: Reader) -> wire.BuildStatus:
        counts = await memory.builds(tenant)
        return wire.BuildStatus(
            queued=counts.queued,
            building=counts.building,
            ready=counts.ready,
            failed=counts.failed,
        )


def receipt(removed: Removed) -> dict[str, int]:
    """What a deletion took away, by the names of `DeleteResponse`."""
    counts = asdict(removed)
    return {"deleted": counts.pop("memories"), **counts}


def to_scope(body: wire.Scope) -> core.Scope:
    """The ids of a request."""
    return core.Scope.of(body)


def to_wire(memory: core.Memory) -> wire.Memory:
    """A memory as clients see it; `hash` is the MD5 that Mem0 users compare."""
    return wire.Memory(**_fields(memory))


def _fields(memory: core.Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "memory": memory.text,
        "hash": hashlib.md5(memory.text.encode(), usedforsecurity=False).hexdigest(),
        **memory.scope.ids,
        "role": memory.role,
        "actor_id": memory.actor_id,
        "metadata": memory.metadata,
        "version": memory.version,
        "kv_state": memory.kv_state,
        "status": memory.status,
        "kind": memory.kind,
        "said_at": memory.said_at,
        "superseded_by": memory.superseded_by,
        "expires_at": memory.expires_at,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
    }


def to_ranking(body: wire.SearchRequest | wire.RecallRequest) -> Ranking:
    """How a request wants its hits ranked."""
    return Ranking(
        mode=body.mode,
        diversity=body.diversity,
        recency_days=body.recency_days,
        rerank=body.rerank,
    )


def _scored(hit: core.Hit, *, explain: bool) -> wire.ScoredMemory:
    details = None
    if explain and hit.details is not None:
        details = wire.ScoreDetails(**asdict(hit.details))
    return wire.ScoredMemory(
        **_fields(hit.memory), score=hit.score, details=details, rerank_score=hit.rerank_score
    )
