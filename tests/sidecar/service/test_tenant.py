"""Keys: what they grant, how they end, and that their secrets are nowhere."""

from pathlib import Path
from typing import Any

import pytest

from inferscale_sidecar.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from inferscale_sidecar.service.tenant import TenantService


async def test_a_local_caller_needs_no_key_until_there_is_one(world: Any) -> None:
    tenants = world.tenants
    grant = await tenants.authenticate(None, is_local=True)
    assert (grant.tenant.id, grant.scopes) == ("default", {"read", "write", "admin"})
    with pytest.raises(Unauthenticated, match="keys create"):
        await tenants.authenticate(None, is_local=False)
    secret, _ = await tenants.create_key(world.other.id, name="ci")
    with pytest.raises(Unauthenticated):
        await tenants.authenticate(None, is_local=True)
    assert (await tenants.authenticate(secret, is_local=False)).tenant == world.other


async def test_where_keys_are_required_being_local_does_not_help(world: Any) -> None:
    tenants = TenantService(world.store, world.metrics, auth="required")
    with pytest.raises(Unauthenticated):
        await tenants.authenticate(None, is_local=True)


async def test_a_wrong_key_is_worse_than_none(world: Any) -> None:
    for secret in ("isk_wrong", "isk_\ud800", "isk_" + "x" * 100_000):
        with pytest.raises(Unauthenticated, match="not valid"):
            await world.tenants.authenticate(secret, is_local=True)


async def test_the_secret_is_stored_nowhere(world: Any, database_url: str) -> None:
    secret, key = await world.tenants.create_key(world.tenant.id, name="ci", scopes=["read"])
    assert secret.startswith(key.prefix)
    assert await world.tenants.list_keys(world.tenant.id) == [key]
    assert secret not in repr(key)
    path = Path(database_url.removeprefix("sqlite+aiosqlite:///"))
    for file in path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


async def test_revocation_is_seen_at_once_here_and_within_a_second_elsewhere(world: Any) -> None:
    now = 100.0
    elsewhere = TenantService(world.store, world.metrics, monotonic=lambda: now)
    secret, key = await world.tenants.create_key(world.tenant.id, name="ci")
    for service in (world.tenants, elsewhere):
        await service.authenticate(secret, is_local=False)
    await world.tenants.revoke_key(world.tenant.id, key.id)
    with pytest.raises(Unauthenticated):
        await world.tenants.authenticate(secret, is_local=False)
    now += 1.0
    with pytest.raises(Unauthenticated):
        await elsewhere.authenticate(secret, is_local=False)
    with pytest.raises(NotFound):
        await world.tenants.revoke_key(world.tenant.id, key.id)


async def test_a_revoked_last_key_does_not_open_the_door_again(world: Any) -> None:
    _, key = await world.tenants.create_key(world.tenant.id, name="ci")
    await world.tenants.revoke_key(world.tenant.id, key.id)
    with pytest.raises(Unauthenticated):
        await world.tenants.authenticate(None, is_local=True)


async def test_scopes_are_what_they_say(world: Any) -> None:
    async def allowed(*scopes: str) -> set[str]:
        secret, _ = await world.tenants.create_key(world.tenant.id, name="x", scopes=scopes)
        grant = await world.tenants.authenticate(secret, is_local=False)
        found = set()
        for scope in ("read", "write", "admin"):
            try:
                world.tenants.require(grant, scope)
                found.add(scope)
            except PermissionDenied:
                pass
        return found

    assert await allowed("read") == {"read"}
    assert await allowed("write") == {"write"}
    assert await allowed("read", "write") == {"read", "write"}
    assert await allowed("admin") == {"read", "write", "admin"}


async def test_bad_names_and_scopes_are_refused(world: Any) -> None:
    for scopes in ([], ["root"], ["read", "*"]):
        with pytest.raises(InvalidInput, match="scopes"):
            await world.tenants.create_key(world.tenant.id, name="x", scopes=scopes)
    for name in ("", " ", "x" * 300, "a\nb"):
        with pytest.raises(InvalidInput, match="name"):
            await world.tenants.create_tenant(name)
    with pytest.raises(Conflict, match="exists already"):
        await world.tenants.create_tenant("other")
    with pytest.raises(NotFound):
        await world.tenants.create_key("nobody", name="x")


async def test_one_tenant_cannot_revoke_anothers_key(world: Any) -> None:
    _, key = await world.tenants.create_key(world.tenant.id, name="ci")
    with pytest.raises(NotFound):
        await world.tenants.revoke_key(world.other.id, key.id)
    assert await world.tenants.list_keys(world.other.id) == []
