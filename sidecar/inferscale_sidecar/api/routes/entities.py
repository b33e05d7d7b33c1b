"""`/v1/entities`: decode, call `MemoryService`, encode."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from inferscale.protocol import entities as wire
from inferscale.protocol.memory import Wire
from inferscale.protocol.paging import MAX_PAGE
from inferscale_sidecar import core
from inferscale_sidecar.api.auth import current_tenant
from inferscale_sidecar.api.cursor import cursor_of, read_cursor
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.store.records import Entity

Reader = Annotated[core.Tenant, Depends(current_tenant)]


class EntityQuery(Wire):
    """Query of `GET /v1/entities`."""

    type: wire.EntityType | None = None
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: str | None = Field(default=None, max_length=64)


def create_entity_router(memory: MemoryService) -> APIRouter:
    """The route over one service."""
    router = APIRouter(tags=["memories"])

    @router.get("/v1/entities")
    async def list_entities(
        query: Annotated[EntityQuery, Query()], tenant: Reader
    ) -> wire.EntityListResponse:
        page = await memory.entities(
            tenant, query.type, limit=query.limit, after=read_cursor(query.cursor)
        )
        return wire.EntityListResponse(
            results=[_to_wire(each) for each in page.entities],
            total=page.total,
            next_cursor=cursor_of(page.next_after),
        )

    return router


def _to_wire(entity: Entity) -> wire.Entity:
    return wire.Entity.model_validate({**vars(entity), "type": entity.id_name.removesuffix("_id")})
