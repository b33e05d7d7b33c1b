"""`/v1/recall` and `/v1/handles`: decode, call `RecallService`, encode."""

from typing import Annotated

from fastapi import APIRouter, Depends

from inferscale.protocol import memory as wire
from inferscale_sidecar import core
from inferscale_sidecar.api.auth import current_tenant
from inferscale_sidecar.api.routes.memory import to_ranking, to_scope
from inferscale_sidecar.service.recall import Recalled, RecallService

Reader = Annotated[core.Tenant, Depends(current_tenant)]


def create_recall_router(recall: RecallService) -> APIRouter:
    """The routes over one service."""
    router = APIRouter(tags=["recall"])

    @router.post("/v1/recall")
    async def create(body: wire.RecallRequest, tenant: Reader) -> wire.HandleResponse:
        composition = await recall.recall(
            tenant,
            to_scope(body),
            body.query,
            k=body.k,
            threshold=body.threshold,
            filters=body.filters,
            ranking=to_ranking(body),
            max_tokens=body.max_tokens,
            as_of=body.as_of,
            ttl_s=body.ttl_s,
        )
        return handle_to_wire(await recall.show(composition))

    @router.get("/v1/handles/{handle}")
    async def get(handle: str, tenant: Reader) -> wire.HandleResponse:
        return handle_to_wire(await recall.show(await recall.resolve(tenant, handle)))

    return router


def handle_to_wire(recalled: Recalled) -> wire.HandleResponse:
    """A handle as clients see it."""
    composition = recalled.composition
    return wire.HandleResponse(
        handle=composition.handle,
        **composition.scope.ids,
        items=[
            wire.HandleItem(id=item.memory_id, memory=item.text, score=item.score, kv_state=state)
            for item, state in zip(composition.items, recalled.kv_states, strict=True)
        ],
        blocks=[
            wire.HandleBlock(id=b.block_id, version=b.version, label=b.label, value=b.value)
            for b in composition.blocks
        ],
        text=recalled.text,
        created_at=composition.created_at,
        expires_at=composition.expires_at,
        as_of=composition.as_of,
    )
