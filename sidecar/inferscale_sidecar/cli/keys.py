"""`tenants` and `keys`: who may call, straight in the database; the sidecar need not run."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from inferscale_sidecar.cli.output import OK, Output
from inferscale_sidecar.config import Config
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import ApiKey


def create_tenant(config: Config, output: Output, name: str) -> int:
    """Make a tenant: its memories, handles, keys and caches are apart from all others'."""

    async def work() -> dict[str, object]:
        async with _service(config) as tenants:
            return _tenant_row(await tenants.create_tenant(name))

    row = asyncio.run(work())
    output.data(row, f"created {row['name']}")
    return OK


def list_tenants(config: Config, output: Output) -> int:
    """Print all tenants, oldest first."""

    async def work() -> list[dict[str, object]]:
        async with _service(config) as tenants:
            return [_tenant_row(tenant) for tenant in await tenants.list_tenants()]

    output.table("tenants", asyncio.run(work()), ("id", "name"))
    return OK


def create_key(
    config: Config, output: Output, tenant: str, name: str, scopes: Sequence[str]
) -> int:
    """Make a key and print it, the only time that it can be seen."""

    async def work() -> tuple[str, ApiKey]:
        async with tenant_named(config, tenant) as (tenants, tenant_id):
            return await tenants.create_key(tenant_id, name=name, scopes=scopes)

    secret, key = asyncio.run(work())
    output.data({"secret": secret, **_row(key)}, secret)
    output.note("keep it: it cannot be shown again")
    return OK


def list_keys(config: Config, output: Output, tenant: str) -> int:
    """Print the tenant's keys, without their secrets."""

    async def work() -> Sequence[ApiKey]:
        async with tenant_named(config, tenant) as (tenants, tenant_id):
            return await tenants.list_keys(tenant_id)

    rows = [_row(key) for key in asyncio.run(work())]
    output.table("keys", rows, ("id", "name", "prefix", "scopes", "created_at", "revoked_at"))
    return OK


def revoke_key(config: Config, output: Output, tenant: str, key_id: str) -> int:
    """Refuse a key from now on; a running sidecar notices within a second."""

    async def work() -> None:
        async with tenant_named(config, tenant) as (tenants, tenant_id):
            await tenants.revoke_key(tenant_id, key_id)

    asyncio.run(work())
    output.data({"id": key_id, "revoked": True}, f"revoked {key_id}")
    return OK


@asynccontextmanager
async def _service(config: Config) -> AsyncIterator[TenantService]:
    config.home.mkdir(parents=True, exist_ok=True)
    store = SqlStore.of(config)
    try:
        await store.start()
        yield TenantService(store, Metrics())
    finally:
        await store.close()


@asynccontextmanager
async def tenant_named(config: Config, name: str) -> AsyncIterator[tuple[TenantService, str]]:
    """The tenants, and the id of the one with this name or id. Raises NotFound."""
    async with _service(config) as tenants:
        for tenant in await tenants.list_tenants():
            if name in (tenant.name, tenant.id):
                yield tenants, tenant.id
                return
        raise NotFound(
            f"no tenant {name!r}; `tenants list` shows them, `tenants create {name}` makes it"
        )


def _tenant_row(tenant: Tenant) -> dict[str, object]:
    return {"id": tenant.id, "name": tenant.name}


def _row(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": " ".join(sorted(key.scopes)),
        "created_at": key.created_at.isoformat(timespec="seconds"),
        "revoked_at": key.revoked_at.isoformat(timespec="seconds") if key.revoked_at else None,
    }
