"""No slab has two owners, none is lost, nothing pinned leaves, nobody reads what was freed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inferscale_vllm.tiers.slabs import (
    SLAB_TOKENS,
    Name,
    Placed,
    Slabs,
    rows_per_slab,
    slabs_for,
)

NUM_SLABS = 12
SIZES = {(f"item {n}", 0): 1 + n % 5 for n in range(10)}
HOLDERS = ["ann", "bob", "cyd"]


class SlabMachine(RuleBasedStateMachine):
    """An arena of one number per slab: an item's number in all of its slabs, NaN in freed ones."""

    def __init__(self) -> None:
        super().__init__()
        self.slabs = Slabs(NUM_SLABS)
        self.content = np.full(NUM_SLABS, np.nan)
        self.pins: dict[str, list[Name]] = {}

    @rule(holder=st.sampled_from(HOLDERS), names=st.sets(st.sampled_from(list(SIZES)), min_size=1))
    def reserve(self, holder: str, names: set[Name]) -> None:
        before = {name: self.slabs.slabs_of(name) for name in SIZES}
        new = self.slabs.reserve(holder, {name: SIZES[name] for name in names})
        if new is None:
            kept = self.pinned() | names
            assert sum(SIZES[name] for name in kept) > NUM_SLABS, "it would have fitted"
            assert before == {name: self.slabs.slabs_of(name) for name in SIZES}
            return
        assert set(new) == {name for name in names if before[name] is None}
        self.pins.setdefault(holder, []).extend(names)
        self.poison()
        for name in new:
            self.content[list(self.slabs.slabs_of(name) or ())] = list(SIZES).index(name)

    @rule(holder=st.sampled_from(HOLDERS))
    def release(self, holder: str) -> None:
        self.slabs.release(holder)
        self.pins.pop(holder, None)

    @rule(name=st.sampled_from(list(SIZES)))
    def drop(self, name: Name) -> None:
        self.slabs.drop(name)
        assert (self.slabs.slabs_of(name) is not None) <= (name in self.pinned())
        self.poison()

    def pinned(self) -> set[Name]:
        return {name for names in self.pins.values() for name in names}

    def poison(self) -> None:
        owned = [s for name in SIZES for s in self.slabs.slabs_of(name) or ()]
        self.content[np.setdiff1d(np.arange(NUM_SLABS), owned)] = np.nan

    @invariant()
    def every_slab_is_free_or_one_items(self) -> None:
        owned = [s for name in SIZES for s in self.slabs.slabs_of(name) or ()]
        assert len(owned) == len(set(owned)) == self.slabs.used <= NUM_SLABS
        assert len(self.slabs) == sum(self.slabs.slabs_of(name) is not None for name in SIZES)

    @invariant()
    def items_are_whole(self) -> None:
        for number, name in enumerate(SIZES):
            held = self.slabs.slabs_of(name)
            if held is not None:
                assert len(held) == SIZES[name]
                assert (self.content[list(held)] == number).all()

    @invariant()
    def nothing_pinned_leaves(self) -> None:
        assert all(self.slabs.slabs_of(name) is not None for name in self.pinned())


TestSlabMachine = SlabMachine.TestCase
TestSlabMachine.settings = settings(max_examples=80, stateful_step_count=30)


def test_the_least_recently_used_leaves_first() -> None:
    slabs = Slabs(3)
    for name in "abc":
        slabs.reserve(name, {(name, 0): 1})
        slabs.release(name)
    slabs.reserve("again", {("a", 0): 1})
    slabs.release("again")
    slabs.reserve("new", {("d", 0): 1})
    assert [slabs.slabs_of((name, 0)) is not None for name in "abcd"] == [True, False, True, True]
    assert slabs.evicted == 1


def test_what_two_hold_stays_until_both_let_go() -> None:
    slabs = Slabs(1)
    for holder in ("one", "two"):
        assert slabs.reserve(holder, {("a", 0): 1}) is not None
    slabs.release("one")
    assert slabs.reserve("three", {("b", 0): 1}) is None
    slabs.release("two")
    assert slabs.reserve("three", {("b", 0): 1}) == [("b", 0)]


@given(st.data(), st.integers(1, 40), st.integers(1, 60))
def test_rows_stay_inside_the_slabs(data: st.DataObject, plain: int, num_rows: int) -> None:
    row_bytes = data.draw(st.integers(1, plain))
    slab_bytes = SLAB_TOKENS * plain
    count = slabs_for(num_rows, slab_bytes, row_bytes)
    order = data.draw(st.permutations(range(count + 3)))
    placed = Placed(tuple(order[:count]), num_rows, row_bytes, slab_bytes)
    assert placed.fits and not Placed(placed.slabs[1:], num_rows, row_bytes, slab_bytes).fits
    start = data.draw(st.integers(0, num_rows - 1))
    pieces = list(placed.pieces(start, num_rows - start))
    assert sum(rows for _, rows in pieces) == num_rows - start
    for (row, rows), slab in zip(pieces, placed.slabs[-len(pieces) :], strict=True):
        assert slab * slab_bytes <= row * row_bytes
        assert (row + rows) * row_bytes <= (slab + 1) * slab_bytes
    whole = [r for row, rows in placed.pieces(0, num_rows) for r in range(row, row + rows)]
    part = [r for row, rows in pieces for r in range(row, row + rows)]
    assert whole[start:] == part


@pytest.mark.parametrize(("row_bytes", "rows"), [(10, 8), (5, 16), (6, 12), (9, 7)])
def test_uncompressed_rows_fill_a_slab(row_bytes: int, rows: int) -> None:
    assert rows_per_slab(SLAB_TOKENS * 10, row_bytes) == rows
