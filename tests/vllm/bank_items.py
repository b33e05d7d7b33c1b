"""Made-up items and small banks for the tests of the bank; also imported by processes that they
kill."""

from pathlib import Path
from typing import Any

import numpy as np

from inferscale_vllm.bank import Bank, ItemHeader, checksum, tenant_of

SMALL = 2**20
TENANTS = [tenant_of(name) for name in ("ann", "bob")]
Stored = tuple[ItemHeader, memoryview]


def key(number: int) -> str:
    return f"{number:064x}"


def item(seed: int, *, tokens: int = 3, token_bytes: int = 64, tenant: int = 0) -> Stored:
    kv = np.random.default_rng(seed).bytes(tokens * token_bytes)
    ids = np.arange(tokens, dtype=np.int32) + seed
    return ItemHeader(tokens, seed, len(kv), checksum(kv), ids, TENANTS[tenant]), memoryview(kv)


def pages(seed: int, count: int, tenant: int = 0) -> Stored:
    """An item of so many pages of the file."""
    return item(seed, tokens=count, token_bytes=4096, tenant=tenant)


def small(folder: Path, **options: Any) -> Bank:
    """A bank of 1 MiB: 192 pages for items."""
    return Bank(folder / "rank0", limit_bytes=SMALL, **options)
