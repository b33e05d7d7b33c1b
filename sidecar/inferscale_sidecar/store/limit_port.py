"""The port of tenants' limits. Owns the promises, not the SQL."""

from collections.abc import Mapping
from typing import Protocol

from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store.records import Usage


class LimitPort(Protocol):
    """Limits by tenant, above the server's defaults. Writes check them in their transactions."""

    async def limits(self, tenant_id: str) -> Limits:
        """What holds for the tenant."""

    async def own_limits(self, tenant_id: str) -> dict[str, int]:
        """What is set for this tenant alone, by name."""

    async def set_limits(self, tenant_id: str, changes: Mapping[str, int | None]) -> None:
        """Set limits by name; None goes back to the server's default.

        Raises:
            NotFound: no such tenant.
        """

    async def usage(self, tenant_id: str) -> Usage:
        """What the tenant keeps. Raises NotFound."""
