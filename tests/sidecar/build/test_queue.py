"""The queue against an engine that is slow, full, down, restarted or picky."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.sidecar.engine.demo import demo_lists
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.build.ports import Silent
from inferscale_sidecar.build.queue import BuildQueue
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.build.window_job import NOT_KEPT
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.chat_metrics import MetricsRecorder

from .fake_store import FakeStore

pytestmark = pytest.mark.timeout(60)


@asynccontextmanager
async def running(engine: FakeEngine, store: FakeStore, **options) -> AsyncIterator[BuildQueue]:
    async with engine.client() as client:
        queue = BuildQueue(store, client, demo_lists(), poll_s=0.05, **options)
        queue.start()
        try:
            yield queue
        finally:
            await queue.stop()


async def until(condition, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def settled(queue: BuildQueue) -> None:
    queue.notify()
    await queue.wait_idle()


async def test_what_is_written_gets_built_and_recorded():
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store) as queue:
        store.add("Likes tea.", "Lives in Rome.")
        await settled(queue)
    assert len(store.kv) == 2 and store.keys() == set(engine.bank)
    (body,) = engine.bodies
    assert (body["max_tokens"], body["priority"], body["model"]) == (1, 10, "demo")
    for kv in store.kv.values():
        assert kv.num_tokens == len(engine.bank[kv.key])


async def test_windows_hold_one_owner_and_no_more_than_allowed():
    engine, store = FakeEngine(), FakeStore()
    store.add(*(f"a{n}" for n in range(25)), owner="user:alice")
    store.add("b", owner="user:bob")
    store.add("c", owner="user:alice", tenant="globex")
    async with running(engine, store, limits=WindowLimits(items=10)) as queue:
        await settled(queue)
    renewed = 8  # the first ones of the long list, in better company
    assert sorted(len(b.captures) for b in engine.builds) == [1, 1, 5, renewed, 10, 10]
    assert len({b.salt for b in engine.builds}) == 2
    assert len({body["cache_salt"] for body in engine.bodies}) == 6


async def test_no_more_builds_in_flight_than_allowed_but_as_many():
    engine, store = FakeEngine(), FakeStore()
    engine.build_delay_s = 0.05
    for n in range(6):
        store.add("x", owner=f"user:{n}")
    async with running(engine, store, max_in_flight=3) as queue:
        await settled(queue)
    assert engine.most_building == 3 and len(store.kv) == 6


async def test_another_owner_does_not_wait_behind_a_backlog():
    engine, store = FakeEngine(), FakeStore()
    engine.build_delay_s = 0.1
    store.add(*(f"fact {n}" for n in range(60)), owner="user:alice")
    async with running(engine, store, limits=WindowLimits(items=10)) as queue:
        await until(lambda: engine.now_building > 0)
        store.add("Likes tea.", owner="user:bob")
        await until(lambda: any(kv.memory_id == "m0060" for kv in store.kv.values()))
        assert len(store.kv) < 61
        await settled(queue)


async def test_a_dead_engine_makes_it_wait_not_fail():
    engine, store = FakeEngine(), FakeStore()
    engine.is_down = True
    async with running(engine, store) as queue:
        store.add("Likes tea.")
        queue.notify()
        await until(lambda: queue.progress.last_error is not None)
        assert not queue.progress.is_connected and not store.failures
        engine.is_down = False
        await until(lambda: len(store.kv) == 1)
        assert queue.progress.is_connected and queue.progress.built == 1


async def test_an_engine_that_dies_during_a_build_loses_nothing():
    engine, store = FakeEngine(), FakeStore()
    engine.gate.clear()
    store.add("Likes tea.")
    async with running(engine, store) as queue:
        await until(lambda: engine.bodies)
        engine.is_down = True
        await queue.stop()
        assert not store.kv and not store.failures
        engine.is_down = False
        engine.gate.set()
        queue.start()
        await until(lambda: len(store.kv) == 1)


async def test_after_a_restart_what_the_bank_lost_is_built_again():
    engine, store = FakeEngine(), FakeStore()
    connects = []
    async with running(engine, store, on_connect=lambda: connects.append(1)) as queue:
        store.add("Likes tea.", "Lives in Rome.", "Has a cat.")
        await settled(queue)
        lost = sorted(store.keys())[0]
        del engine.bank[lost]
        queue.reconnected()
        await queue.wait_idle()
    assert store.keys() == set(engine.bank) and len(store.kv) == 3
    assert len(connects) == 2


async def test_a_full_bank_gets_its_evicted_items_back_when_they_are_wanted():
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store) as queue:
        store.add("Likes tea.", "Lives in Rome.", "Has a cat.")
        await settled(queue)
        wanted, other, _ = sorted(store.keys())
        del engine.bank[wanted], engine.bank[other]
        engine.is_full = True
        queue.reconnected()
        await queue.wait_idle()
        assert len(engine.bank) == 1, "building all anew would only evict as much"
        queue.suspect([wanted])
        await queue.wait_idle()
    assert len(engine.bank) == 2 and other not in engine.bank


async def test_what_the_bank_does_is_counted():
    metrics = Metrics()
    engine, store = FakeEngine(), FakeStore()
    engine.evicted, engine.hits = 40, 7  # before this sidecar
    recorder = MetricsRecorder(metrics, lambda: "demo")
    async with running(engine, store, recorder=recorder) as queue:
        store.add("Likes tea.", "Lives in Rome.")
        await settled(queue)
        engine.evicted, engine.hits = 43, 2  # and the engine was restarted
        engine.tiers = {"host": {"used_bytes": 300, "evicted_items": 5}}
        await settled(queue)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"inferscale_{name}", labels)

    assert value("kv_items") == 2 and value("kv_bytes", tier="disk") == 200
    assert value("kv_limit_bytes") == 10_000
    assert value("kv_bytes", tier="host") == 300 and value("kv_bytes", tier="hbm") == 0
    assert value("kv_evictions_total", tier="host") == 5
    assert value("kv_evictions_total", tier="disk") == 3
    assert value("kv_lookups_total", outcome="hit") == 2
    assert value("kv_lookups_total", outcome="miss") == 0
    assert value("kv_checksum_failures_total") == 0


async def test_another_fingerprint_builds_everything_anew():
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store) as queue:
        store.add("Likes tea.")
        await settled(queue)
        engine.fingerprint = "fp-2"
        await settled(queue)
    assert {fp for _, _, fp in store.kv} == {"fp-1@bank-1", "fp-2@bank-1"}


async def test_a_bank_that_was_given_up_is_emptied_before_it_is_used():
    engine, store = FakeEngine(), FakeStore()
    engine.bank["ab" * 32] = (1, 2)  # deleted while nobody kept account of this bank
    store.given_up.add("fp-1@bank-1")
    async with running(engine, store) as queue:
        store.add("Likes tea.")
        await settled(queue)
    assert store.keys() == set(engine.bank) and len(store.kv) == 1
    assert not store.given_up


async def test_a_missed_key_is_looked_for_and_built_again():
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store) as queue:
        store.add("Likes tea.")
        await settled(queue)
        (key,) = store.keys()
        engine.bank.clear()
        queue.suspect([key])
        await queue.wait_idle()
    assert set(engine.bank) == store.keys() != set()


async def test_deletes_reach_the_bank_and_dependants_are_built_anew():
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store) as queue:
        first, *_ = store.add("Secret.", "Behind it.")
        await settled(queue)
        before = set(engine.bank)
        store.drop(first)
        store.purges.append("the name of a text")
        await settled(queue)
    assert not before & set(engine.bank) and not store.purges
    assert "the name of a text" in engine.forgotten
    assert set(engine.bank) == store.keys() and len(store.kv) == 1


async def test_a_memory_deleted_while_it_is_built_leaves_nothing_in_the_bank():
    engine, store = FakeEngine(), FakeStore()
    engine.build_delay_s = 0.1
    (item,) = store.add("Secret.")
    async with running(engine, store) as queue:
        await until(lambda: engine.now_building)
        store.drop(item)
        await settled(queue)
    assert not engine.bank and not store.kv


async def test_one_bad_item_does_not_stop_its_neighbours():
    engine, store = FakeEngine(), FakeStore()
    new = store.add(*(f"fact {n}" for n in range(7)))
    bad = demo_lists().split(["fact 3"]).item_ids(0)

    def is_bad(body) -> bool:
        ids = tuple(body["prompt"])
        starts = [c[1] for c in body["kv_transfer_params"]["inferscale"]["captures"]]
        return any(ids[s : s + len(bad)] == bad for s in starts)

    engine.refuse = is_bad
    async with running(engine, store) as queue:
        await settled(queue)
    assert {kv.memory_id for kv in store.kv.values()} == {i.memory_id for i in new} - {"m0003"}
    assert "too hot" in store.failures["m0003", 1][0]
    assert list(store.failures) == [("m0003", 1)]


async def test_a_full_bank_is_a_failure_that_waits_before_it_is_tried_again():
    engine, store = FakeEngine(), FakeStore()
    engine.capacity = 0
    store.add("Likes tea.")
    async with running(engine, store) as queue:
        await settled(queue)
        await settled(queue)
    assert store.failures["m0000", 1] == [NOT_KEPT] == [queue.progress.last_error]


async def test_who_wants_to_know_is_told_which_keys_have_left_the_bank():
    engine, store, told = FakeEngine(), FakeStore(), []

    def note(keys) -> None:
        assert set(keys) <= set(engine.deleted), "not before they are gone"
        told.extend(keys)

    async with running(engine, store, on_purge=note) as queue:
        store.purges = ["ab" * 32, "the name of a text", "cd" * 32]
        await settled(queue)
    assert told == ["ab" * 32, "cd" * 32]


async def test_with_injection_off_nothing_is_built_but_purges_are_done():
    engine, store = FakeEngine(), FakeStore()
    engine.enabled = False
    engine.bank["ab" * 32] = (1,)
    store.purges = ["ab" * 32]
    store.add("Likes tea.")
    async with running(engine, store) as queue:
        await settled(queue)
    assert not engine.bodies and not engine.bank and not store.purges


async def test_stop_ends_at_once_with_builds_in_flight():
    engine, store = FakeEngine(), FakeStore()
    engine.gate.clear()
    store.add("Likes tea.")
    async with running(engine, store) as queue:
        await until(lambda: engine.bodies)
        await asyncio.wait_for(queue.stop(), 1)
    assert not store.kv and not store.failures


class Recorder(Silent):
    def __init__(self) -> None:
        self.windows: list[str] = []
        self.waits: list[float] = []
        self.most_waiting = 0

    def waiting(self, items: int) -> None:
        self.most_waiting = max(self.most_waiting, items)

    def window(self, outcome: str) -> None:
        self.windows.append(outcome)

    def injectable(self, seconds: float) -> None:
        self.waits.append(seconds)


async def test_metrics_count_windows_and_the_way_to_injectable():
    engine, store, recorder = FakeEngine(), FakeStore(), Recorder()
    engine.build_delay_s = 0.05
    async with running(engine, store, recorder=recorder) as queue:
        store.add("Likes tea.", "Lives in Rome.")
        await settled(queue)
        engine.refuse = lambda body: True
        store.add("Has a cat.")
        await settled(queue)
    assert recorder.windows == ["ok", "failed"] and recorder.most_waiting == 2
    assert len(recorder.waits) == 2 and all(0.05 <= w < 5 for w in recorder.waits)


async def test_an_isolating_policy_builds_alone_and_rebuilds_what_was_not():
    engine, store = FakeEngine(), FakeStore()
    store.add("Likes tea.", "Lives in Rome.", "Owns a boat.")
    async with running(engine, store) as queue:
        await settled(queue)
    assert any(kv.context_ids for kv in store.kv.values())
    async with running(engine, store, limits=WindowLimits(policy="generic(2)")) as queue:
        await settled(queue)
    assert len(store.kv) == 3 and not any(kv.context_ids for kv in store.kv.values())
    assert store.keys() == set(engine.bank)


async def test_a_policy_with_similar_items_finds_them_among_all():
    engine, store = FakeEngine(), FakeStore()
    first, *_ = store.add("Drinks green tea.", *(f"Fact {n}." for n in range(9)))
    limits = WindowLimits(policy="similar(1)+recent(1)")
    async with running(engine, store, limits=limits) as queue:
        await settled(queue)
        (new,) = store.add("Buys green tea.")
        await settled(queue)
    (kv,) = [kv for kv in store.kv.values() if kv.memory_id == new.memory_id]
    assert kv.context_ids == (first.memory_id, "m0009")


LATE = "1a" * 32


async def test_what_is_deleted_during_a_round_is_purged_without_waiting_for_the_next_poll():
    class Late(FakeStore):
        """Something is deleted right after the queue has asked what to purge."""

        async def take_purges(self, fingerprint: str, *, limit: int) -> list[str]:
            found = await super().take_purges(fingerprint, limit=limit)
            if LATE in engine.bank and not self.purges:
                self.purges.append(LATE)
                queue.notify()
            return found

    engine, store = FakeEngine(), Late()
    async with engine.client() as client:
        queue = BuildQueue(store, client, demo_lists(), poll_s=3600)
        engine.bank[LATE] = (1, 2)
        queue.start()
        await settled(queue)
        await queue.stop()
    assert LATE not in engine.bank
