"""Layouts of trials: every fact is encoded once, behind what the layout says."""

import numpy as np
import pytest
from benchmarks.quality.trials import layouts
from benchmarks.quality.trials.layouts import Window

from inferscale_sidecar.compose.generic import GENERIC_ITEMS

FACTS = tuple(f"fact {n}" for n in range(50))


def unit(count: int) -> np.ndarray:
    made = np.random.default_rng(1).normal(size=(count, 6))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def new(windows: list[Window]) -> list[int]:
    return sorted(n for window in windows for n in window.new)


@pytest.mark.parametrize("size", [1, 7, 50])
def test_a_chain_encodes_every_fact_once_behind_those_before_it(size: int):
    windows = layouts.chain(FACTS, range(50), behind=8, size=size)
    assert new(windows) == list(range(50))
    assert all(len(window.before) == 8 for window in windows)
    assert windows[0].before == GENERIC_ITEMS[:8]
    assert windows[-1].before[-1] in (FACTS[windows[-1].new[0] - 1], GENERIC_ITEMS[7])


def test_a_shuffled_chain_is_another_order_of_the_same_facts():
    one, two = (layouts.shuffled(FACTS, seed, behind=8, size=20) for seed in (1, 2))
    assert new(one) == new(two) == list(range(50))
    assert one != two


def test_a_stirred_window_keeps_its_context_apart_from_its_facts():
    window = Window(FACTS[:8], tuple(range(8, 48)))
    stirred = layouts.stirred(window, 1)
    assert stirred != window
    assert sorted(stirred.before) == sorted(window.before)
    assert sorted(stirred.new) == list(window.new)


def test_an_order_by_meaning_goes_to_the_closest_that_is_left():
    vectors = unit(30)
    order = layouts.by_meaning(vectors)
    assert sorted(order) == list(range(30))
    for at in range(29):
        rest = order[at + 1 :]
        assert rest[0] == max(rest, key=lambda n: vectors[n] @ vectors[order[at]])


def test_a_served_list_is_encoded_behind_what_it_is_served_behind():
    assert layouts.sliding(FACTS, [5, 3, 9], 1) == [
        Window((), (5,)),
        Window((FACTS[5],), (3,)),
        Window((FACTS[3],), (9,)),
    ]


def test_a_fact_behind_earlier_ones_has_made_up_ones_where_there_are_none():
    assert layouts.behind_earlier(FACTS, 5, 2) == Window(FACTS[3:5], (5,))
    assert layouts.behind_earlier(FACTS, 1, 3) == Window((*GENERIC_ITEMS[:2], FACTS[0]), (1,))
    assert layouts.behind_earlier(FACTS, 7, 0) == Window((), (7,))


def test_facts_of_a_session_are_encoded_behind_its_turns():
    first, second = ["a", "b", "c"], ["d"]
    sources = {fact: first if n < 30 else second for n, fact in enumerate(FACTS)}
    windows = layouts.behind_turns(FACTS, sources, 2)
    assert windows == [
        Window(("b", "c"), tuple(range(30))),
        Window(("d",), tuple(range(30, 50))),
    ]


@pytest.mark.parametrize(
    "name", ["recent(8)/12", "generic(16)", "back", "stir:1", "shuffled:2", "meaning", "session(3)"]
)
def test_a_layout_by_name_encodes_every_fact_once(name: str):
    sources = {fact: ["a", "b"] for fact in FACTS}
    assert new(layouts.windows(name, FACTS, unit(50), sources)) == list(range(50))


def test_a_layout_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no layout is called 'nearest'"):
        layouts.windows("nearest", FACTS, unit(50), {})
