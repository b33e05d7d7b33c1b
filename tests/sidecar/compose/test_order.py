"""Order of a composition: best last, injectable first, the same every time."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale_sidecar.compose.generic import GENERIC_ITEMS
from inferscale_sidecar.compose.order import exact_items, order, suffix_items
from inferscale_sidecar.core import CompositionItem, Hit, Memory, Scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def hit(name: str, score: float, state: str = "ready", age_s: int = 0) -> Hit:
    made = NOW - timedelta(seconds=age_s)
    memory = Memory(name, "t", Scope("u"), f"text {name}", 1, made, made, kv_state=state)
    return Hit(memory, score)


def names(items) -> list[str]:
    return [i.memory_id for i in items]


@pytest.mark.parametrize(("n", "r"), [(0, 0), (1, 1), (2, 1), (7, 1), (8, 2), (13, 2), (200, 2)])
def test_a_fifth_is_left_to_exact_attention(n, r):
    assert suffix_items(n) == r


def test_best_last_and_what_is_not_ready_before_the_best():
    hits = [hit("a", 0.9, "queued"), hit("b", 0.1), hit("c", 0.2, "queued"), hit("d", 0.5)]
    assert names(order(hits, suffix_items=1)) == ["b", "d", "c", "a"]


def test_ties_go_by_age_then_id():
    hits = [hit("b", 0.5), hit("a", 0.5), hit("old", 0.5, age_s=60)]
    assert names(order(hits, suffix_items=0)) == ["old", "a", "b"]


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3]), st.booleans()), max_size=30),
    st.integers(0, 40),
    st.randoms(),
)
def test_order_is_a_function_of_the_set(rows, r, rng: random.Random):
    hits = [hit(f"m{n}", s, "ready" if ok else "failed") for n, (s, ok) in enumerate(rows)]
    shuffled = rng.sample(hits, len(hits))
    ordered = order(hits, suffix_items=r)
    assert order(shuffled, suffix_items=r) == ordered
    assert sorted(names(ordered)) == sorted(h.memory.id for h in hits)
    best = ordered[len(ordered) - min(r, len(ordered)) :]
    assert [i.score for i in best] == sorted(i.score for i in best)
    assert not best or max(i.score for i in ordered) == best[-1].score


def scored(*scores: float, chars: int = 20) -> list[CompositionItem]:
    return [CompositionItem(f"m{n}", 1, "x" * chars, s) for n, s in enumerate(scores)]


@pytest.mark.parametrize(("fidelity", "r"), [("fast", 0), ("balanced", 2), ("exact", 20)])
def test_fidelity_is_how_much_is_left_to_prefill(fidelity, r):
    assert exact_items(scored(*[0.3] * 20), fidelity) == r
    assert exact_items([], fidelity) == 0


def test_one_outstanding_item_is_enough():
    assert exact_items(scored(*[0.1] * 19, 0.9), "balanced") == 1
    assert exact_items(scored(*[0.1] * 18, 0.9, 0.9), "balanced") == 2


def test_a_long_item_is_not_added_to_the_suffix_beyond_a_quarter_of_the_text():
    items = scored(*[0.3] * 20)
    items[-2] = CompositionItem("long", 1, "x" * 2000, 0.3)
    assert exact_items(items, "balanced") == 1
    items[-1] = CompositionItem("longer", 1, "x" * 9000, 0.3)
    assert exact_items(items, "balanced") == 1


@given(st.lists(st.floats(-1, 1), max_size=60), st.integers(1, 300))
def test_balanced_lies_between_one_item_and_a_fifth(scores, chars):
    items = scored(*sorted(scores), chars=chars)
    assert min(1, len(items)) <= exact_items(items, "balanced") <= suffix_items(len(items))


def test_generic_items_are_distinct_single_lines():
    assert len(set(GENERIC_ITEMS)) == 16
    assert all(len(text.splitlines()) == 1 for text in GENERIC_ITEMS)
