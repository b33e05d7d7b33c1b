"""`/v1/keys`: a tenant's API keys, for callers with the scope admin."""

from typing import Annotated

from fastapi import APIRouter, Depends

from inferscale.protocol import tenant as wire
from inferscale_sidecar.api.auth import admin_tenant
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.store.records import ApiKey

Admin = Annotated[Tenant, Depends(admin_tenant)]


def create_tenant_router(tenants: TenantService) -> APIRouter:
    """The routes over one service."""
    router = APIRouter(tags=["keys"])

    @router.post("/v1/keys", status_code=201)
    async def create(body: wire.KeyRequest, tenant: Admin) -> wire.CreatedKey:
        secret, key = await tenants.create_key(tenant.id, name=body.name, scopes=body.scopes)
        return wire.CreatedKey(**_to_wire(key).model_dump(), secret=secret)

    @router.get("/v1/keys")
    async def list_keys(tenant: Admin) -> wire.KeyList:
        keys = await tenants.list_keys(tenant.id)
        return wire.KeyList(results=[_to_wire(key) for key in keys])

    @router.delete("/v1/keys/{key_id}", status_code=204)
    async def revoke(key_id: str, tenant: Admin) -> None:
        await tenants.revoke_key(tenant.id, key_id)

    return router


def _to_wire(key: ApiKey) -> wire.Key:
    return wire.Key(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=sorted(key.scopes),
        created_at=key.created_at,
        revoked_at=key.revoked_at,
    )
