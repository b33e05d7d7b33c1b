"""What the builder needs of the store: the KV port and the tenants' salts."""

from typing import Protocol

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.store.base import KvPort


class BuildStore(KvPort, Protocol):
    """Durable state of builds; every method is one transaction."""

    async def get_tenant(self, tenant_id: str) -> Tenant | None: ...
