"""Tenants' limits in SQL."""

from collections.abc import Mapping

from sqlalchemy import delete, insert
from sqlalchemy.exc import IntegrityError

from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Usage
from inferscale_sidecar.store.schema import tenant_limits


class SqlLimits:
    """Implements `LimitPort`. `_limits` are the server's defaults."""

    _db: Database
    _limits: Limits

    async def limits(self, tenant_id: str) -> Limits:
        async with self._db.read() as conn:
            return await quota.limits_of(conn, tenant_id, self._limits)

    async def own_limits(self, tenant_id: str) -> dict[str, int]:
        async with self._db.read() as conn:
            return await quota.own_limits(conn, tenant_id)

    async def set_limits(self, tenant_id: str, changes: Mapping[str, int | None]) -> None:
        given = [
            {"tenant_id": tenant_id, "name": name, "value": value}
            for name, value in changes.items()
            if value is not None
        ]
        its = tenant_limits.c.tenant_id == tenant_id
        try:
            async with self._db.write() as conn:
                await conn.execute(
                    delete(tenant_limits).where(its, tenant_limits.c.name.in_(list(changes)))
                )
                if given:
                    await conn.execute(insert(tenant_limits), given)
        except IntegrityError as error:
            raise NotFound(f"no tenant {tenant_id!r} to set limits for") from error

    async def usage(self, tenant_id: str) -> Usage:
        async with self._db.read() as conn:
            return await quota.used(conn, tenant_id)
