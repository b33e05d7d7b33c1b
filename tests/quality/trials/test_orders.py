"""Orders of a served list: the same facts, and what could be mistaken for the best one."""

import numpy as np
import pytest
from benchmarks.quality.trials import orders
from benchmarks.quality.trials.series import UNLIKE, Arm

VECTORS = np.eye(8)[[0, 1, 2, 3, 4, 5, 6, 6]]


@pytest.mark.parametrize(
    "order", ["best_last", "all_shuffled", "built", "alike_last", "far_half_built"]
)
def test_an_order_keeps_the_facts(order: str):
    assert sorted(orders.ordered(order, [5, 3, 6, 1, 7], VECTORS)) == [1, 3, 5, 6, 7]


def test_the_far_half_is_shuffled_alone():
    usual = [5, 3, 6, 1, 2, 7]
    assert orders.ordered("far_half_shuffled", usual, VECTORS)[3:] == usual[3:]


def test_what_is_alike_stands_last_and_is_left_to_prefill():
    chosen = orders.ordered("alike_last", [6, 3, 5, 1, 7], VECTORS)
    assert chosen == [3, 5, 1, 6, 7]
    assert orders.left(Arm("x", UNLIKE), chosen, VECTORS) == 2
    assert orders.left(Arm("x", 3), chosen, VECTORS) == 3
