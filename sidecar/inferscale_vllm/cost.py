"""Whether injecting pays: seconds that it costs beside seconds of prefill that it saves.

Owns the measurements and the comparison. The worker measures every step, the scheduler reads what
it measured; nothing is assumed about the machine. Invariant: without measurements injection always
pays, and what is declined is tried again now and then, so that no old figure stays in force.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from inferscale_vllm.metadata import StepMetadata
from inferscale_vllm.state import EngineState

NOTE = "cost"
PUBLISH_S = 1.0
PROBE_EVERY = 16
"""Of so many requests in a row that injection does not pay for, one is injected all the same."""
KEPT = 15
"""Measurements kept per size."""
ENOUGH = 5


@dataclass(frozen=True)
class Line:
    """Seconds that `n` tokens take: `fixed_s + n * per_token_s`."""

    fixed_s: float
    per_token_s: float

    def seconds(self, num_tokens: int) -> float:
        return self.fixed_s + num_tokens * self.per_token_s


class Samples:
    """Seconds by number of tokens: medians of the last few, so that one interrupted step tells
    nothing.

    Kept per power of two, because steps of one token are a thousand times as many as steps of a
    thousand, and would drown them.
    """

    def __init__(self) -> None:
        self._kept: dict[int, deque[tuple[int, float]]] = {}

    def add(self, num_tokens: int, seconds: float) -> None:
        """Takes one measurement."""
        if num_tokens > 0:
            size = num_tokens.bit_length()
            self._kept.setdefault(size, deque(maxlen=KEPT)).append((num_tokens, seconds))

    def line(self) -> Line | None:
        """The least-squares line; None as long as fewer than two sizes are known well."""
        known = [np.median(kept, axis=0) for kept in self._kept.values() if len(kept) >= ENOUGH]
        if len(known) < 2:
            return None
        tokens, seconds = np.array(known).T
        slope, fixed = np.polyfit(tokens, seconds, 1)
        if fixed < 0 or slope < 0:
            return Line(0.0, float(seconds.sum() / tokens.sum()))
        return Line(float(fixed), float(slope))


class StepMeter:
    """The worker's stopwatch: how long a step's injection takes, and its forward pass.

    Only where the host waits for the device, which is on CPU.

    Args:
        state: where the lines are noted, at most once per `PUBLISH_S`.
        clock: seconds, monotonic.
    """

    def __init__(self, state: EngineState, clock: Callable[[], float] = time.perf_counter) -> None:
        self._state, self._clock = state, clock
        self._inject, self._prefill = Samples(), Samples()
        self._injected, self._computed = 0, 0
        self._began = self._copy_s = 0.0
        self._published = -PUBLISH_S

    def begin(self, metadata: StepMetadata) -> None:
        """A step begins."""
        self._injected = sum(s.num_tokens for load in metadata.loads for s in load.segments)
        self._computed, self._copy_s = metadata.num_tokens, 0.0
        self._began = self._clock()

    @contextmanager
    def injecting(self) -> Iterator[None]:
        """Around the filling of slots, which may come before or after the forward pass."""
        start = self._clock()
        yield
        self._copy_s += self._clock() - start

    def end(self) -> None:
        """The forward pass is over."""
        now = self._clock()
        self._prefill.add(self._computed, now - self._began - self._copy_s)
        if self._injected:
            self._inject.add(self._injected, self._copy_s)
        if now - self._published >= PUBLISH_S:
            self._published = now
            self._publish()

    def _publish(self) -> None:
        inject, prefill = self._inject.line(), self._prefill.line()
        if inject and prefill:
            self._state.note(NOTE, {"inject": asdict(inject), "prefill": asdict(prefill)})


class CostModel:
    """The scheduler's judgement.

    Args:
        state: where the worker notes its lines.
        clock: seconds, monotonic.
    """

    def __init__(self, state: EngineState, clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._clock = state, clock
        self._lines: tuple[Line, Line] | None = None
        self._read = -PUBLISH_S
        self._declined = 0

    def pays(self, num_tokens: int) -> bool:
        """Whether injecting so many tokens takes less time than computing them."""
        lines = self._current()
        if lines is None:
            return True
        inject, prefill = lines
        if inject.seconds(num_tokens) <= prefill.per_token_s * num_tokens:
            return True
        self._declined += 1
        return self._declined % PROBE_EVERY == 0

    def _current(self) -> tuple[Line, Line] | None:
        now = self._clock()
        if now - self._read >= PUBLISH_S:
            self._read = now
            self._lines = _lines(self._state.get_note(NOTE))
        return self._lines


def _lines(note: Any) -> tuple[Line, Line] | None:
    return (Line(**note["inject"]), Line(**note["prefill"])) if note else None
