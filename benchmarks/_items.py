"""What a sidecar under measurement is given to store, and what it has stored: items, keys, tenant.

Reads the sidecar's database and engine beside it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from benchmarks import _facts, _output
from benchmarks._sidecar import Sidecar

from inferscale import Memory
from inferscale_sidecar.build.renew import early_limit, renewal
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.core import KvItem, Tenant
from inferscale_sidecar.engine.client import bank_name
from inferscale_sidecar.scope import Scope
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
    """All items of a user that are ready to be injected, once none of them is to be encoded again:
    that gives it another key, and the old one leaves the bank.

    Raises:
        SystemExit: some are not.
    """
    fingerprint = bank_name(sidecar.engine_status())
    records = memory.get_all(user_id=user_id).results
    versions = [(record.id, record.version) for record in records]
    tenant, known = asyncio.run(
        _read(sidecar.store_url, fingerprint, versions, Scope(user_id=user_id).owner)
    )
    if not versions:
        raise SystemExit(f"user {user_id} has no memories: nothing to measure")
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
    url: str, fingerprint: str, versions: list[tuple[str, int]], owner: str
) -> tuple[Tenant, dict[tuple[str, int], KvItem]]:
    store = SqlStore(url)
    try:
        await store.start()
        tenant = next(t for t in await store.list_tenants() if t.name == "default")
        await _settled(store, tenant.id, owner, fingerprint)
        return tenant, await store.kv_items(tenant.id, fingerprint, versions)
    finally:
        await store.close()


async def _settled(store: SqlStore, tenant_id: str, owner: str, fingerprint: str) -> None:
    """Waits until the owner's first items have been encoded again behind later ones."""
    policy, deadline = WindowLimits().encode_policy, time.monotonic() + BUILD_TIMEOUT_S
    while True:
        early = await store.early_items(tenant_id, owner, fingerprint, limit=early_limit(policy))
        if not early:
            raise SystemExit(f"the store knows nothing of {owner}: cannot tell whether it is done")
        if renewal(early, policy) is None:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"the first items of {owner} were not encoded again: cannot measure")
        await asyncio.sleep(0.2)


def remember(memory: Memory, count: int, seed: int) -> None:
    """Add so many made-up memories of `USER`, and wait for their KV."""
    facts = _facts.facts(count, seed)
    _output.note(f"adding {len(facts)} memories and waiting for their KV")
    memory.add([{"role": "user", "content": fact} for fact in facts], user_id=USER, infer=False)
    if failed := memory.wait_until_ready(timeout_s=BUILD_TIMEOUT_S, builds=True).failed:
        raise SystemExit(f"{failed} memories could not be built")
