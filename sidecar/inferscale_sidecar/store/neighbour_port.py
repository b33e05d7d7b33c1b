"""The port of what the encode policy asks of the store. Owns the promises, not the SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inferscale_sidecar.core import BuildItem


@dataclass(frozen=True)
class EarlyItem:
    """An item, and behind how many items of its owner its KV was encoded (None: it has no KV)."""

    item: BuildItem
    neighbours: int | None


class NeighbourPort(Protocol):
    """Items in the company of others."""

    async def similar_items(self, items: Sequence[BuildItem], *, limit: int) -> list[BuildItem]:
        """The owner's live items closest in meaning to these (of one owner), without them, best
        last."""

    async def early_items(
        self, tenant_id: str, owner: str, fingerprint: str, *, limit: int
    ) -> list[EarlyItem]:
        """The owner's first live items, oldest first."""

    async def drop_dependent_kv(self, fingerprint: str) -> int:
        """Drop the KV of items that were encoded behind other memories, so that they are pending
        again. Returns how many there were."""
