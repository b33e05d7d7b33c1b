"""Tenants and API keys in SQL. Secrets never come here, only their SHA-256."""

import secrets
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import Conflict, NotFound
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import ApiKey, Grant, KeyScope
from inferscale_sidecar.store.schema import api_keys, tenants


class SqlTenants:
    """Implements `TenantPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def get_tenant(self, tenant_id: str) -> Tenant | None:
        async with self._db.read() as conn:
            found = await conn.execute(select(tenants).where(tenants.c.id == tenant_id))
            row = found.one_or_none()
        return _to_tenant(row) if row else None

    async def list_tenants(self) -> list[Tenant]:
        query = select(tenants).order_by(tenants.c.created_at, tenants.c.id)
        async with self._db.read() as conn:
            return [_to_tenant(row) for row in await conn.execute(query)]

    async def create_tenant(self, name: str) -> Tenant:
        row = new_tenant(str(uuid.uuid4()), name, self._clock())
        try:
            async with self._db.write() as conn:
                await conn.execute(insert(tenants).values(row))
        except IntegrityError as error:
            raise Conflict(
                f"a tenant named {name!r} exists already; choose another name"
            ) from error
        return Tenant(row["id"], name, row["salt"])

    async def get_tenant_by_key_hash(self, key_hash: str) -> Grant | None:
        query = (
            select(tenants, api_keys.c.scopes)
            .join(api_keys, api_keys.c.tenant_id == tenants.c.id)
            .where(api_keys.c.key_hash == key_hash, api_keys.c.revoked_at.is_(None))
        )

        async def work(conn: AsyncConnection) -> Grant | None:
            row = (await conn.execute(query)).one_or_none()
            if row is None:
                return None
            limits = await quota.limits_of(conn, row.id, self._limits)
            return Grant(_to_tenant(row), _to_scopes(row.scopes), limits)

        return await self._db.run_read(work)

    async def create_key(
        self, tenant_id: str, *, name: str, prefix: str, key_hash: str, scopes: frozenset[KeyScope]
    ) -> ApiKey:
        key = ApiKey(str(uuid.uuid4()), tenant_id, name, prefix, scopes, self._clock())
        row = asdict(key) | {"key_hash": key_hash, "scopes": " ".join(sorted(scopes))}
        try:
            async with self._db.write() as conn:
                await conn.execute(insert(api_keys).values(row))
        except IntegrityError as error:
            raise NotFound(f"no tenant {tenant_id!r} to make a key for") from error
        return key

    async def list_keys(self, tenant_id: str) -> list[ApiKey]:
        query = (
            select(api_keys)
            .where(api_keys.c.tenant_id == tenant_id)
            .order_by(api_keys.c.created_at, api_keys.c.id)
        )
        async with self._db.read() as conn:
            rows = (await conn.execute(query)).all()
        return [
            ApiKey(
                row.id,
                row.tenant_id,
                row.name,
                row.prefix,
                _to_scopes(row.scopes),
                row.created_at,
                row.revoked_at,
            )
            for row in rows
        ]

    async def revoke_key(self, tenant_id: str, key_id: str) -> bool:
        query = (
            update(api_keys)
            .where(api_keys.c.tenant_id == tenant_id, api_keys.c.id == key_id)
            .where(api_keys.c.revoked_at.is_(None))
            .values(revoked_at=self._clock())
        )
        async with self._db.write() as conn:
            return (await conn.execute(query)).rowcount > 0

    async def has_keys(self) -> bool:
        async with self._db.read() as conn:
            return await conn.scalar(select(api_keys.c.id).limit(1)) is not None


def new_tenant(tenant_id: str, name: str, now: datetime) -> dict[str, Any]:
    """A row of `tenants` with a fresh salt."""
    return {"id": tenant_id, "name": name, "salt": secrets.token_bytes(32), "created_at": now}


def _to_tenant(row: Row[Any]) -> Tenant:
    return Tenant(id=row.id, name=row.name, salt=row.salt)


def _to_scopes(text: str) -> frozenset[KeyScope]:
    return frozenset(text.split())  # type: ignore[arg-type]  # written by create_key only
