"""How full a bank is. Reads only totals, never items."""

from dataclasses import dataclass

from inferscale_vllm.bank.file import BankFile
from inferscale_vllm.bank.items import Count

FULL_SHARE = 0.9
"""Evictions leave a bank a twentieth below its capacity: from here on it counts as full."""


@dataclass(frozen=True)
class BankStats:
    """Attributes:
    items: in the bank, retired ones included until they are erased.
    size_bytes: of the file; it does not shrink by itself.
    used_bytes: what the items take of it.
    limit_bytes: most the file may grow to.
    tenants: how many tenants have items.
    evicted_items, evicted_bytes: since the file was made.
    is_full: so full that the next items push others out.
    """

    items: int
    size_bytes: int
    used_bytes: int
    limit_bytes: int
    tenants: int
    evicted_items: int
    evicted_bytes: int
    is_full: bool


def stats_of(file: BankFile, limit_bytes: int, capacity_bytes: int) -> BankStats:
    """Counts and sizes of a file that may grow to its limit, and hold items up to its capacity."""
    with file.env.begin() as txn, txn.cursor(db=file.tables["tenants"]) as cursor:
        counts = [Count.unpack(value) for _, value in cursor]
        evicted = Count.unpack(txn.get(b"evicted", db=file.tables["meta"]))
    used = sum(count.size_bytes for count in counts)
    return BankStats(
        items=sum(count.items for count in counts),
        size_bytes=file.size_bytes,
        used_bytes=used,
        limit_bytes=limit_bytes,
        tenants=len(counts),
        evicted_items=evicted.items,
        evicted_bytes=evicted.size_bytes,
        is_full=used >= FULL_SHARE * capacity_bytes,
    )
