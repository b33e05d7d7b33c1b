"""What the builder needs of its neighbours: the store, and somewhere to count."""

from collections.abc import Mapping
from typing import Any, Protocol

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.store.bank_port import BankPort
from inferscale_sidecar.store.base import KvPort
from inferscale_sidecar.store.neighbour_port import NeighbourPort


class BuildStore(KvPort, BankPort, NeighbourPort, Protocol):
    """Durable state of builds; every method is one transaction."""

    async def get_tenant(self, tenant_id: str) -> Tenant | None: ...


class BuildRecorder(Protocol):
    """Metrics of builds."""

    def waiting(self, items: int) -> None:
        """So many items have no KV yet (as far as the queue looks ahead)."""

    def window(self, outcome: str) -> None:
        """A build request ended: `ok` or `failed`."""

    def injectable(self, seconds: float) -> None:
        """An item can be injected, so long after the queue first saw it."""

    def bank(
        self, stats: Mapping[str, Any], counters: Mapping[str, Any], tiers: Mapping[str, Any]
    ) -> None:
        """The engine's bank, its counters and its arenas, as its status has them."""


class Silent:
    """A recorder that records nothing."""

    def waiting(self, items: int) -> None: ...

    def window(self, outcome: str) -> None: ...

    def injectable(self, seconds: float) -> None: ...

    def bank(
        self, stats: Mapping[str, Any], counters: Mapping[str, Any], tiers: Mapping[str, Any]
    ) -> None: ...
