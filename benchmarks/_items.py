"""What a sidecar under measurement is given to store, and what it has stored: items, keys, tenant.

Reads the sidecar's database and engine beside it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks import _facts, _output
from benchmarks._sidecar import Sidecar

from inferscale import Memory
from inferscale_sidecar.core import KvItem, Tenant
from inferscale_sidecar.engine.client import bank_name
from inferscale_sidecar.store import SqlStore

USER = "bench"
BUILD_TIMEOUT_S = 600


@dataclass(frozen=True)
class StoredItem:
    """A memory whose KV the bank holds."""

    text: str
    key: str
    num_tokens: int


@dataclass(frozen=True)
class Stored:
    """One user's items, and whose they are."""

    tenant: Tenant
    items: tuple[StoredItem, ...]


def read_stored(sidecar: Sidecar, memory: Memory, user_id: str = USER) -> Stored:
    """All items of a user that are ready to be injected.

    Raises:
        SystemExit: some are not.
    """
    fingerprint = bank_name(sidecar.engine_status())
    records = memory.get_all(user_id=user_id).results
    versions = [(record.id, record.version) for record in records]
    tenant, known = asyncio.run(_read(sidecar.store_url, fingerprint, versions))
    missing = [version for version in versions if version not in known]
    if missing:
        raise SystemExit(f"{len(missing)} of {len(records)} memories have no KV: cannot measure")
    return Stored(
        tenant,
        tuple(
            StoredItem(record.memory, item.key, item.num_tokens)
            for record in records
            for item in [known[record.id, record.version]]
        ),
    )


async def _read(
    url: str, fingerprint: str, versions: list[tuple[str, int]]
) -> tuple[Tenant, dict[tuple[str, int], KvItem]]:
    store = SqlStore(url)
    try:
        await store.start()
        tenant = next(t for t in await store.list_tenants() if t.name == "default")
        return tenant, await store.kv_items(tenant.id, fingerprint, versions)
    finally:
        await store.close()


def remember(memory: Memory, count: int, seed: int) -> None:
    """Add so many made-up memories of `USER`, and wait for their KV."""
    facts = _facts.facts(count, seed)
    _output.note(f"adding {len(facts)} memories and waiting for their KV")
    memory.add([{"role": "user", "content": fact} for fact in facts], user_id=USER, infer=False)
    if failed := memory.wait_until_ready(timeout_s=BUILD_TIMEOUT_S, builds=True).failed:
        raise SystemExit(f"{failed} memories could not be built")
