"""No step injects more than it may, and nobody who has to wait is forgotten."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale_vllm.pace import StepBudget


@given(st.lists(st.integers(1, 100), max_size=30), st.integers(0, 200))
def test_a_step_takes_one_request_or_as_many_as_fit(sizes: list[int], limit: int) -> None:
    budget, waiting, steps = StepBudget(limit), sizes, []
    while waiting:
        taken, rest = [], []
        for size in waiting:
            if budget.allows(size):
                budget.spend(size)
                taken.append(size)
            else:
                rest.append(size)
        budget.renew()
        assert taken[0] == waiting[0]
        assert not limit or len(taken) == 1 or sum(taken) <= limit
        waiting = rest
        steps.append(taken)
    assert sorted(size for step in steps for size in step) == sorted(sizes)
    assert limit or len(steps) <= 1


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_vllm_asks_again_for_those_that_wait(start_engine: Any, new_list: Any) -> None:
    """Sixteen requests of 3 MB at once, 1 MiB a step: each is injected in a step of its own."""
    engine = start_engine(bank_options={"inject_step_bytes": 2**20})
    made = new_list(40, sizes=[24] * 5)
    engine.complete(made.prompt(), made.build("pace build"), tokens=1, cache_salt="pace build")
    orders = [[(n + at) % 5 for at in range(5)] for n in range(5)]

    def ask(number: int, name: str = "together") -> Any:
        order, salt = orders[number % 5], f"{name} {number}"
        return engine.complete(made.prompt(order), made.inject(salt, order), cache_salt=salt)

    alone = [ask(number, "alone") for number in range(5)]
    before = engine.status()["counters"].get("delayed_requests", 0)
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, range(16)))
    for number, answer in enumerate(together):
        assert answer.report["injected"] == 20 + 5 * 24
        assert answer.token_ids[0] == alone[number % 5].token_ids[0]
    assert before == 0 < engine.status()["counters"]["delayed_requests"]
