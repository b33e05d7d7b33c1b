"""What does not pay is not injected, and only measurements decide what pays."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from inferscale_vllm.cost import ENOUGH, NOTE, PROBE_EVERY, CostModel, Samples, StepMeter
from inferscale_vllm.metadata import Load, StepMetadata
from inferscale_vllm.plan import Segment
from inferscale_vllm.state import EngineState

INJECT_FIXED_S, INJECT_TOKEN_S, PREFILL_FIXED_S, PREFILL_TOKEN_S = 1e-3, 5e-6, 20e-3, 200e-6


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[EngineState]:
    state = EngineState(tmp_path / "state")
    yield state
    state.close()


def step(meter: StepMeter, clock: Clock, computed: int, injected: int, stall_s: float = 0) -> None:
    """One step of an engine that takes exactly so long."""
    piece = Segment("k", 0, injected, 0, 0)
    loads = [Load("r", [piece], [np.arange(injected)], [1])] if injected else []
    meter.begin(StepMetadata(loads=loads, num_tokens=computed))
    with meter.injecting():
        clock.now += INJECT_FIXED_S + injected * INJECT_TOKEN_S + stall_s if injected else 0
    clock.now += PREFILL_FIXED_S + computed * PREFILL_TOKEN_S + stall_s
    meter.end()


def measure(state: EngineState, clock: Clock, stall_s: float = 0) -> None:
    meter = StepMeter(state, clock)
    for n in range(12 * ENOUGH):
        stall = stall_s if n % 4 == 3 else 0
        step(
            meter, clock, computed=(1, 64, 900)[n % 3], injected=(0, 30, 600)[n % 3], stall_s=stall
        )
    clock.now += 2
    step(meter, clock, computed=1, injected=0)


def test_without_measurements_everything_is_injected(state: EngineState, clock: Clock) -> None:
    assert all(CostModel(state, clock).pays(n) for n in range(1, 5))


def test_the_break_even_point_is_found(state: EngineState, clock: Clock) -> None:
    measure(state, clock)
    model = CostModel(state, clock)
    assert [n for n in range(1, 9) if model.pays(n)] == [6, 7, 8]  # 1 ms / (200 - 5) µs = 5.1


def test_steps_that_something_else_held_up_do_not_move_it(state: EngineState, clock: Clock) -> None:
    measure(state, clock, stall_s=0.5)
    model = CostModel(state, clock)
    assert [n for n in range(1, 9) if model.pays(n)] == [6, 7, 8]


def test_what_is_declined_is_tried_again_now_and_then(state: EngineState, clock: Clock) -> None:
    measure(state, clock)
    model = CostModel(state, clock)
    assert sum(model.pays(1) for _ in range(4 * PROBE_EVERY)) == 4


def test_new_figures_are_taken_up(state: EngineState, clock: Clock) -> None:
    measure(state, clock)
    model = CostModel(state, clock)
    assert not model.pays(2)
    note = state.get_note(NOTE)
    state.note(NOTE, note | {"inject": {"fixed_s": 0.0, "per_token_s": 1e-6}})
    clock.now += 2
    assert model.pays(2)


def test_one_size_draws_no_line() -> None:
    samples = Samples()
    for n in range(20):
        samples.add(100 + n % 3, 0.1)
    assert samples.line() is None


def test_a_line_never_says_that_more_tokens_take_less_time() -> None:
    samples = Samples()
    for _ in count():
        samples.add(10, 0.02)
        samples.add(1000, 0.01)
        if (line := samples.line()) is not None:
            break
    assert line.fixed_s >= 0 and line.per_token_s > 0
