"""`/v1/blocks`: decode, call `BlockService`, encode."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, status
from pydantic import Field

from inferscale.protocol import blocks as wire
from inferscale.protocol.memory import DeleteResponse, Scope
from inferscale_sidecar import core
from inferscale_sidecar.api.auth import current_tenant, writing_tenant
from inferscale_sidecar.api.cursor import cursor_of, read_cursor
from inferscale_sidecar.api.routes.memory import receipt, to_scope
from inferscale_sidecar.service.blocks import MAX_PAGE, BlockService
from inferscale_sidecar.store.block_port import BlockDraft, BlockEvent

Reader = Annotated[core.Tenant, Depends(current_tenant)]
Writer = Annotated[core.Tenant, Depends(writing_tenant)]


class BlockQuery(Scope):
    """Query of `GET /v1/blocks`."""

    label: wire.Label | None = None
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: str | None = Field(default=None, max_length=64)
    shown: bool = False
    """True: what a request with exactly these ids shows, in that order, all on one page."""


def create_block_router(blocks: BlockService) -> APIRouter:
    """The routes over one service."""
    router = APIRouter(tags=["blocks"])
    _add_collection_routes(router, blocks)
    _add_item_routes(router, blocks)
    _add_edit_routes(router, blocks)
    return router


def _add_collection_routes(router: APIRouter, blocks: BlockService) -> None:
    @router.post("/v1/blocks", status_code=status.HTTP_201_CREATED)
    async def create(body: wire.CreateBlockRequest, tenant: Writer) -> wire.Block:
        draft = BlockDraft(
            label=body.label,
            value=body.value,
            limit=body.limit,
            description=body.description,
            read_only=body.read_only,
            metadata=body.metadata,
        )
        return to_wire(await blocks.create(tenant, to_scope(body), draft))

    @router.get("/v1/blocks")
    async def list_blocks(
        query: Annotated[BlockQuery, Query()], tenant: Reader
    ) -> wire.BlockListResponse:
        scope = to_scope(query)
        if query.shown:
            shown = await blocks.shown(tenant, scope, label=query.label)
            return wire.BlockListResponse(results=list(map(to_wire, shown)), total=len(shown))
        page = await blocks.list(
            tenant, scope, label=query.label, limit=query.limit, after=read_cursor(query.cursor)
        )
        return wire.BlockListResponse(
            results=[to_wire(each) for each in page.blocks],
            total=page.total,
            next_cursor=cursor_of(page.next_after),
        )


def _add_item_routes(router: APIRouter, blocks: BlockService) -> None:
    @router.get("/v1/blocks/{block_id}")
    async def get(block_id: str, tenant: Reader) -> wire.Block:
        return to_wire(await blocks.get(tenant, block_id))

    @router.patch("/v1/blocks/{block_id}")
    async def update(block_id: str, body: wire.UpdateBlockRequest, tenant: Writer) -> wire.Block:
        changed = await blocks.update(tenant, block_id, _changes(body), if_version=body.if_version)
        return to_wire(changed)

    @router.delete("/v1/blocks/{block_id}")
    async def delete(block_id: str, tenant: Writer) -> DeleteResponse:
        return DeleteResponse(**receipt(await blocks.delete(tenant, block_id)))

    @router.get("/v1/blocks/{block_id}/history")
    async def history(block_id: str, tenant: Reader) -> wire.BlockHistoryResponse:
        events = await blocks.history(tenant, block_id)
        return wire.BlockHistoryResponse(results=[_to_entry(event) for event in events])

    @router.post("/v1/blocks/{block_id}/attach")
    async def attach(block_id: str, body: Scope, tenant: Writer) -> wire.Block:
        return to_wire(await blocks.attach(tenant, block_id, to_scope(body)))

    @router.post("/v1/blocks/{block_id}/detach")
    async def detach(block_id: str, body: Scope, tenant: Writer) -> wire.Block:
        return to_wire(await blocks.detach(tenant, block_id, to_scope(body)))


def _add_edit_routes(router: APIRouter, blocks: BlockService) -> None:
    @router.post("/v1/blocks/{block_id}/append")
    async def append(block_id: str, body: wire.AppendRequest, tenant: Writer) -> wire.Block:
        changed = await blocks.append(tenant, block_id, body.text, if_version=body.if_version)
        return to_wire(changed)

    @router.post("/v1/blocks/{block_id}/replace")
    async def replace(block_id: str, body: wire.ReplaceRequest, tenant: Writer) -> wire.Block:
        changed = await blocks.replace(
            tenant, block_id, body.old, body.new, if_version=body.if_version
        )
        return to_wire(changed)


def _changes(body: wire.UpdateBlockRequest) -> dict[str, Any]:
    """The fields that were sent. Null removes what may be absent; elsewhere it is nothing."""
    given = body.model_dump(exclude={"if_version"}, exclude_unset=True)
    removable = ("description", "metadata")
    return {name: v for name, v in given.items() if v is not None or name in removable}


def to_wire(block: core.Block) -> wire.Block:
    """A block as clients see it."""
    return wire.Block(
        id=block.id,
        label=block.label,
        value=block.value,
        description=block.description,
        limit=block.limit,
        read_only=block.read_only,
        metadata=block.metadata,
        version=block.version,
        scopes=[Scope(**each.ids) for each in block.scopes],
        created_at=block.created_at,
        updated_at=block.updated_at,
    )


def _to_entry(event: BlockEvent) -> wire.BlockHistoryEntry:
    return wire.BlockHistoryEntry(**vars(event))
