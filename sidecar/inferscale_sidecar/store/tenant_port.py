"""The port of tenants, beside those in `base`; what is said there holds here."""

from typing import Protocol

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.store.limit_port import LimitPort
from inferscale_sidecar.store.records import ApiKey, Grant, KeyScope


class TenantPort(LimitPort, Protocol):
    """Tenants, their limits and their API keys, stored as digests."""

    async def get_tenant(self, tenant_id: str) -> Tenant | None: ...

    async def list_tenants(self) -> list[Tenant]: ...

    async def create_tenant(self, name: str) -> Tenant:
        """Raises Conflict if the name is taken."""

    async def get_tenant_by_key_hash(self, key_hash: str) -> Grant | None:
        """What the key with this SHA-256 grants; None if unknown or revoked."""

    async def create_key(
        self, tenant_id: str, *, name: str, prefix: str, key_hash: str, scopes: frozenset[KeyScope]
    ) -> ApiKey:
        """Raises NotFound if there is no such tenant."""

    async def list_keys(self, tenant_id: str) -> list[ApiKey]:
        """Also the revoked ones, oldest first."""

    async def revoke_key(self, tenant_id: str, key_id: str) -> bool:
        """False if the tenant has no such key that is still valid."""

    async def has_keys(self) -> bool:
        """True once any tenant ever had a key."""
