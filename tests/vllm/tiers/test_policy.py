"""Both halves together: what the scheduler promises, the worker finds, and it is the right item.

Every slab that no item owns is poisoned with NaN before each injection, in both arenas.
"""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.metadata import Load
from inferscale_vllm.plan import Segment
from inferscale_vllm.tiers.arenas import Arenas
from inferscale_vllm.tiers.memory import CpuMemory
from inferscale_vllm.tiers.policy import MAX_WAITS, Tiers
from inferscale_vllm.tiers.slabs import SLAB_TOKENS, slabs_for
from inferscale_vllm.tiers.start import cache_table

from .plain_model import BLOCK, DTYPE, FORM, ROPE, Items, layers, read

SLAB_BYTES = SLAB_TOKENS * FORM.row_bytes()
KEYS = [f"{n:064x}" for n in range(8)]
HOLDERS = [f"request {n}" for n in range(4)]
STEP_BYTES = 3 * SLAB_BYTES


class Pair:
    """A scheduler's tiers, and a worker's arenas that obey them."""

    def __init__(self, host_slabs: int, hbm_slabs: int, step_bytes: int = STEP_BYTES) -> None:
        sizes = {"host_slabs": host_slabs, "hbm_slabs": hbm_slabs, "slab_bytes": SLAB_BYTES}
        self.facts: list[Any] = []
        self.tiers = Tiers(**sizes, step_bytes=step_bytes, tell=self.facts.append)
        self.layers = layers(torch.device("cpu"))
        caches = cache_table(self.layers, DTYPE)
        assert caches is not None
        self.memory = Kept()
        self.arenas = Arenas(self.memory, **sizes, form=FORM, rope=ROPE, caches=caches)
        self.items = Items()
        self.headers: dict[str, ItemHeader] = {}
        self._arrived: set[str] = set()

    def add(self, key: str, tokens: int, codec: str = "plain", seed: int = 0) -> None:
        self.headers[key] = self.items.add(key, tokens, codec, seed)

    def asks(self, holder: str, keys: list[str]) -> bool:
        """What `holder` is told; it has arrived before, or does so now."""
        if holder not in self._arrived:
            self._arrived.add(holder)
            self.tiers.want(holder, {key: self.headers[key] for key in keys})
        return self.tiers.is_ready(holder)

    def leaves(self, holder: str) -> None:
        self._arrived.discard(holder)
        self.tiers.release(holder)

    def step(self, keys: list[str] | None = None) -> list[Load]:
        """One step of the engine that injects whole items; what was in no arena."""
        fetches, lifts = self.tiers.step()
        self.arenas.lift(lifts)
        rest = self._inject(keys) if keys else []
        self.arenas.fetch(fetches, self.items)
        assert len(fetches) <= 1 or sum(self._size(c.key) for c in fetches) <= STEP_BYTES
        return rest

    def slabs(self, keys: list[str]) -> int:
        """How many the items take."""
        found = [self.headers[key] for key in keys]
        sizes = [(h.num_tokens, SLAB_BYTES, h.size_bytes // h.num_tokens) for h in found]
        return sum(slabs_for(*size) for size in sizes)

    def _size(self, key: str) -> int:
        return len(self.items.kv(key) or b"")

    def _inject(self, keys: list[str]) -> list[Load]:
        self.poison()
        sizes = [self.headers[key].num_tokens for key in keys]
        slots = BLOCK + np.arange(sum(sizes))
        pieces = [Segment(key, 0, n, 0, 0) for key, n in zip(keys, sizes, strict=True)]
        rest = self.arenas.inject([Load("r", pieces, [slots], [])])
        if not rest:
            wanted = torch.cat([self.items.tokens(key) for key in keys])
            assert torch.equal(read(self.layers, slots), wanted)
        return rest

    def poison(self) -> None:
        for slabs, memory in zip((self.tiers.host, self.tiers.hbm), self.memory.made, strict=True):
            owned = [
                s
                for key, h in self.headers.items()
                for s in slabs.slabs_of((key, h.checksum)) or ()
            ]
            for slab in set(range(slabs.num_slabs)).difference(owned):
                memory[slab * SLAB_BYTES : (slab + 1) * SLAB_BYTES] = 0xFF  # NaN in bf16


class Kept(CpuMemory):
    """Remembers what it gave out: host first."""

    def __init__(self) -> None:
        self.made: list[torch.Tensor] = []

    def host(self, size: int) -> torch.Tensor:
        self.made.append(super().host(size))
        return self.made[-1]


class TiersMachine(RuleBasedStateMachine):
    """Requests that come, wait, are served or leave, over items that are built again."""

    @initialize(host=st.integers(3, 12), hbm=st.sampled_from([0, 2, 5, 12]))
    def begin(self, host: int, hbm: int) -> None:
        self.pair = Pair(host, hbm)
        self.waiting: dict[str, list[str]] = {}
        for number, key in enumerate(KEYS):
            self.pair.add(key, 1 + 5 * number % 23, "int8" if number % 3 else "plain")

    @rule(
        holder=st.sampled_from(HOLDERS), keys=st.sets(st.sampled_from(KEYS), min_size=1, max_size=4)
    )
    def arrive(self, holder: str, keys: set[str]) -> None:
        if holder not in self.waiting:
            self.waiting[holder] = sorted(keys)
            self.pair.asks(holder, self.waiting[holder])

    @rule(
        holder=st.sampled_from(HOLDERS),
        outcome=st.sampled_from(["finds no room", "is preempted", "ends"]),
    )
    def serve(self, holder: str, outcome: str) -> None:
        keys = self.waiting.get(holder)
        if keys is None or not self.pair.asks(holder, keys) or outcome == "finds no room":
            self.pair.step()
            return
        self.pair.tiers.admitted(holder)
        rest = self.pair.step(keys)
        assert not rest or self.pair.slabs(keys) > self.pair.tiers.host.num_slabs, "broken promise"
        if outcome == "ends":
            self.leave(holder)

    @rule(holder=st.sampled_from(HOLDERS))
    def leave(self, holder: str) -> None:
        self.waiting.pop(holder, None)
        self.pair.leaves(holder)

    @rule()
    def idle(self) -> None:
        self.pair.step()

    @rule(key=st.sampled_from(KEYS), seed=st.integers(1, 3), tokens=st.integers(1, 24))
    def build_again(self, key: str, seed: int, tokens: int) -> None:
        """Nobody may hold it: a bank keeps what is promised."""
        if not any(key in keys for keys in self.waiting.values()):
            self.pair.add(key, tokens, "plain", seed)

    @invariant()
    def arenas_are_within_their_budget(self) -> None:
        if hasattr(self, "pair"):
            for tier, slabs in (("host", self.pair.tiers.host), ("hbm", self.pair.tiers.hbm)):
                facts = self.pair.tiers.stats()[tier]
                assert facts["used_bytes"] <= facts["limit_bytes"] == slabs.num_slabs * SLAB_BYTES


TestTiersMachine = TiersMachine.TestCase
TestTiersMachine.settings = settings(max_examples=60, stateful_step_count=25)


def pair_with(*sizes: int, host: int = 8, hbm: int = 0, step_bytes: int = 0) -> Pair:
    pair = Pair(host, hbm, step_bytes)
    for key, tokens in zip(KEYS, sizes, strict=False):
        pair.add(key, tokens)
    return pair


def test_a_cold_request_waits_one_step_and_a_hot_one_none() -> None:
    pair = pair_with(8, 8)
    assert not pair.asks("cold", KEYS[:2])
    assert not pair.asks("cold", KEYS[:2]), "asked again in the same step"
    pair.step()
    assert pair.asks("cold", KEYS[:2])
    assert pair.asks("hot", KEYS[1:2])


def test_what_the_hbm_arena_alone_has_is_pinned_there() -> None:
    pair = pair_with(8, 8, 16, host=2, hbm=1)
    for holder, keys in (("first", KEYS[:1]), ("second", KEYS[1:2])):
        pair.asks(holder, keys)
    pair.step()
    for holder in ("first", "second"):
        pair.leaves(holder)
    assert pair.asks("promised", KEYS[:1])
    pair.asks("takes the host arena", KEYS[2:3])
    pair.leaves("takes the host arena")
    pair.asks("wants the HBM arena", KEYS[1:2])
    pair.step()
    assert pair.asks("promised", []) and pair.step(KEYS[:1]) == []


def test_one_copy_of_a_kind_brings_an_item_from_the_bank_to_the_hbm_arena() -> None:
    pair = pair_with(8, 8, hbm=1)
    pair.asks("cold", KEYS[:1])
    [copy], lifts = pair.tiers.step()
    assert (copy.key, len(copy.host), len(copy.hbm), lifts) == (KEYS[0], 1, 1, [])
    assert pair.tiers.step() == ([], [])


def test_what_the_host_arena_has_is_lifted_and_used_in_the_same_step() -> None:
    pair = pair_with(8, 8, 8, host=3, hbm=1)
    for key in KEYS[:2]:  # the second pushes the first out of the HBM arena
        pair.asks(key, [key])
        pair.step()
        pair.leaves(key)
    assert pair.asks("again", KEYS[:1])
    fetches, lifts = pair.tiers.step()
    assert fetches == [] and [copy.key for copy in lifts] == KEYS[:1]


@pytest.mark.parametrize("is_step_between", [False, True])
def test_slabs_that_wait_for_their_content_are_no_promise(is_step_between: bool) -> None:
    pair = pair_with(8, 8, 24, host=3, hbm=1)
    pair.asks("holds the HBM arena", KEYS[:1])
    pair.asks("host only", KEYS[1:2])
    pair.step()
    for holder in ("holds the HBM arena", "host only"):
        pair.leaves(holder)
    assert pair.asks("gone before the lift", KEYS[1:2])
    pair.leaves("gone before the lift")
    pair.asks("takes the host arena", KEYS[2:3])
    pair.leaves("takes the host arena")
    if is_step_between:
        pair.step()
    assert not pair.asks("late", KEYS[1:2])
    pair.step()
    assert pair.asks("late", KEYS[1:2]) and pair.step(KEYS[1:2]) == []


def test_fetches_come_in_portions_and_in_order() -> None:
    pair = pair_with(8, 8, 8, step_bytes=2 * SLAB_BYTES)
    assert not pair.asks("large", KEYS[:3])
    fetched = [[copy.key for copy in pair.tiers.step()[0]] for _ in range(3)]
    assert fetched == [KEYS[:2], KEYS[2:3], []]


def test_who_fits_nowhere_does_not_wait() -> None:
    assert pair_with(24, host=2).asks("too large", KEYS[:1])


def test_nobody_waits_for_ever() -> None:
    pair = pair_with(8, 8, host=1)
    pair.asks("holds it", KEYS[:1])
    answers = [pair.asks("waits", KEYS[1:2]) for _ in range(MAX_WAITS + 1)]
    assert answers == [False] * MAX_WAITS + [True]


def test_who_finds_the_arena_full_waits_until_somebody_lets_go() -> None:
    pair = pair_with(8, 8, 8, host=2)
    pair.asks("first", KEYS[:2])
    pair.step()
    assert not pair.asks("second", KEYS[1:3])
    pair.step()
    assert pair.asks("first", []) and not pair.asks("second", [])
    pair.tiers.admitted("first")
    pair.step(KEYS[:2])
    assert not pair.asks("second", []), "its slabs are there, its items on their way"
    pair.step()
    assert pair.asks("second", []) and pair.step(KEYS[1:3]) == []


def test_who_is_preempted_asks_again() -> None:
    pair = pair_with(8, 8, host=1)
    pair.asks("preempted", KEYS[:1])
    pair.step()
    pair.tiers.admitted("preempted")
    pair.step(KEYS[:1])
    pair.asks("another", KEYS[1:2])
    assert not pair.asks("preempted", []), "its item had to leave"
    pair.leaves("another")
    assert not pair.asks("preempted", [])
    pair.step()
    assert pair.asks("preempted", []) and pair.step(KEYS[:1]) == []


def test_an_item_that_was_built_again_is_fetched_again() -> None:
    pair = pair_with(8)
    pair.asks("first", KEYS[:1])
    pair.step()
    pair.add(KEYS[0], 8, seed=1)
    assert not pair.asks("second", KEYS[:1])
    pair.step()
    assert pair.asks("second", KEYS[:1]) and pair.step(KEYS[:1]) == []


def test_what_the_bank_has_lost_is_left_to_it() -> None:
    pair = pair_with(8)
    pair.asks("unlucky", KEYS[:1])
    lost = pair.items.kept.pop(KEYS[0])
    pair.step()
    pair.items.kept[KEYS[0]] = lost
    assert pair.asks("unlucky", KEYS[:1])
    assert [load.request_id for load in pair.step(KEYS[:1])] == ["r"]


def test_what_is_where_is_told() -> None:
    pair = pair_with(8, 8, host=2, hbm=1)
    pair.asks("both", KEYS[:2])
    pair.step()
    size = SLAB_BYTES
    assert pair.facts[-1] == {
        "host": {"items": 2, "used_bytes": 2 * size, "limit_bytes": 2 * size, "evicted_items": 0},
        "hbm": {"items": 0, "used_bytes": 0, "limit_bytes": size, "evicted_items": 0},
        "fetched_bytes": 2 * size,
    }
