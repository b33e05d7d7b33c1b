"""Banks: each has its own KV, and one that stays away is given up without losing account."""

from typing import Any

import numpy as np

from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.banks import GIVEN_UP_AFTER
from inferscale_sidecar.store.records import Draft

from .test_kv import ALICE, TENANT, _kv, _pending

HERE, THERE = "model@here", "model@there"


async def _add(store: SqlStore, *texts: str) -> list[Memory]:
    drafts = [Draft(text, np.full(4, 0.5, dtype=np.float32)) for text in texts]
    return [added.memory for added in await store.add_memories(TENANT, ALICE, drafts)]


async def test_what_one_bank_holds_says_nothing_about_another(store: SqlStore) -> None:
    (memory,) = await _add(store, "tea")
    await store.put_kv_items([_kv(memory, "k", fingerprint=HERE)])
    assert await _pending(store, HERE) == []
    assert await _pending(store, THERE) == ["tea"]
    await store.put_kv_items([_kv(memory, "k", fingerprint=THERE)])
    await store.delete_scope(TENANT, Scope(user_id="alice"))
    assert await store.take_purges(HERE, limit=9) == ["k"]
    await store.finish_purges(["k"], fingerprint=HERE)
    assert await store.take_purges(THERE, limit=9) == ["k"], "one bank's purge is not another's"


async def test_a_bank_that_comes_every_day_is_kept(store: SqlStore, clock: Any) -> None:
    (memory,) = await _add(store, "tea")
    await store.put_kv_items([_kv(memory, "k", fingerprint=THERE)])
    for _ in range(40):
        assert not await store.bind_bank(THERE)
        assert not await store.bind_bank(HERE)
        clock.advance(days=1)
    assert await _pending(store, THERE) == []


async def test_a_bank_that_stays_away_is_given_up(store: SqlStore, clock: Any) -> None:
    first, second = await _add(store, "tea", "coffee")
    await store.bind_bank(THERE)
    await store.put_kv_items(
        [_kv(first, "k1", fingerprint=THERE), _kv(second, "k2", fingerprint=THERE, behind=(first,))]
    )
    await store.delete_memory(TENANT, first.id)
    clock.advance(seconds=GIVEN_UP_AFTER.total_seconds() + 1)
    await store.bind_bank(HERE)
    assert await store.take_purges(THERE, limit=9) == [], "they would pile up forever"
    assert await store.bind_bank(THERE), "it may still hold what was deleted"
    assert await store.bind_bank(THERE), "until it was emptied"
    await store.bank_emptied(THERE)
    assert not await store.bind_bank(THERE)
    assert await _pending(store, THERE) == ["coffee"]


async def test_what_was_recorded_without_a_bank_goes_to_the_first(store: SqlStore) -> None:
    first, second = await _add(store, "tea", "coffee")
    await store.put_kv_items(
        [_kv(first, "k1", fingerprint="model"), _kv(second, "k2", fingerprint="model")]
    )
    await store.delete_memory(TENANT, second.id)
    assert not await store.bind_bank(HERE)
    assert await _pending(store, HERE) == []
    assert await store.take_purges(HERE, limit=9) == ["k2"]
    assert not await store.bind_bank(THERE)
    assert await _pending(store, THERE) == ["tea"]
