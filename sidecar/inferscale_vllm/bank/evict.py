"""Which items leave a bank that is too small: least recently used first, a tenant's own over quota.

Pure: no file, no clock. Invariants: nothing promised is chosen; a tenant within its quota loses an
item only if the whole bank is over its capacity.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Resident:
    """An item as eviction sees it.

    Attributes:
        raw: its key, 32 bytes.
        tenant: whose it is.
        size_bytes: what it takes.
        used_ns: when it was used last, or stored.
    """

    raw: bytes
    tenant: bytes
    size_bytes: int
    used_ns: int


@dataclass(frozen=True)
class Budget:
    """What the bank may hold.

    Attributes:
        capacity_bytes: all tenants together.
        tenant_share: most of it that one tenant may hold, 0 to 1.
        slack: share of the capacity that is freed beyond need, so that evictions come in batches.
    """

    capacity_bytes: int
    tenant_share: float = 1.0
    slack: float = 0.05

    @property
    def tenant_bytes(self) -> int:
        return int(self.capacity_bytes * self.tenant_share)


def victims(
    residents: Sequence[Resident],
    needed: Mapping[bytes, int],
    budget: Budget,
    *,
    promised: Set[bytes],
) -> list[Resident] | None:
    """Items to evict so that `needed` more bytes fit; None if they cannot, whatever leaves.

    Args:
        residents: all that take space now.
        needed: bytes to be added, by tenant.
        budget: see there.
        promised: raw keys that must stay.
    """
    free = sorted((r for r in residents if r.raw not in promised), key=lambda r: r.used_ns)
    held = {tenant: needed.get(tenant, 0) for tenant in needed}
    for resident in residents:
        held[resident.tenant] = held.get(resident.tenant, 0) + resident.size_bytes
    chosen: dict[bytes, Resident] = {}
    for tenant in needed:
        own = [r for r in free if r.tenant == tenant]
        if not _shrink(own, chosen, held, tenant, budget.tenant_bytes, budget.slack):
            return None
    total = sum(held.values())
    if total <= budget.capacity_bytes:
        return list(chosen.values())
    aim = int(budget.capacity_bytes * (1 - budget.slack))
    for resident in free:
        if total <= aim:
            break
        if resident.raw not in chosen:
            chosen[resident.raw] = resident
            total -= resident.size_bytes
    return list(chosen.values()) if total <= budget.capacity_bytes else None


def _shrink(
    own: list[Resident],
    chosen: dict[bytes, Resident],
    held: dict[bytes, int],
    tenant: bytes,
    limit: int,
    slack: float,
) -> bool:
    """Chooses a tenant's oldest until it is within its quota; whether that is enough."""
    if held[tenant] <= limit:
        return True
    for resident in own:
        if held[tenant] <= limit * (1 - slack):
            break
        chosen[resident.raw] = resident
        held[tenant] -= resident.size_bytes
    return held[tenant] <= limit
