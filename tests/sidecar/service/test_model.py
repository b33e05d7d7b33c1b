"""Two tenants, random operations, time that passes: service and dict agree, nothing crosses.

Twice: in short runs that Hypothesis chooses and shrinks, and in one long walk.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.sidecar.databases import Backend

from .model import MemoryMachine
from .model_writes import SCOPES, TEXTS

RUNS = settings(max_examples=15, stateful_step_count=40, deadline=None, derandomize=True)
STEPS = {"sqlite": 10_000, "postgres": 1_000}
both = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)
CHECK_EVERY = 100


class Walk:
    """Random steps of a machine, from a seed."""

    def __init__(self, machine: MemoryMachine, seed: int) -> None:
        self.machine = machine
        self.random = random.Random(seed)
        self.memories: deque[Any] = deque([(0, "nothing")], maxlen=60)
        self.handles: deque[Any] = deque(maxlen=20)
        self.moments: deque[Any] = deque(maxlen=10)
        self.steps: dict[Callable[[], None], int] = {
            self._add: 25,
            self._update: 12,
            self._delete: 12,
            self._delete_all: 1,
            self._delete_where: 3,
            self._search: 14,
            self._look: 3,
            self._list: 5,
            self._make_handle: 6,
            self._use_handle: 10,
            self._look_back: 2,
            self._wait: 5,
            self.machine.sweep: 2,
            self.machine.build: 2,
            self.machine.restart: 1,
        }

    def step(self) -> None:
        (step,) = self.random.choices(list(self.steps), list(self.steps.values()))
        step()

    def _where(self) -> dict[str, Any]:
        return {"t": self.random.randrange(2), "scope": self.random.choice(SCOPES)}

    def _ttl_s(self) -> int | None:
        return self.random.choice([None, None, self.random.randint(1, 120)])

    def _mood(self) -> bool:
        return self.random.random() < 0.5

    def _add(self) -> None:
        batch = self.random.choices(TEXTS, k=self.random.randint(0, 4))
        added = self.machine.add(
            **self._where(), batch=batch, mood=self._mood(), ttl_s=self._ttl_s()
        )
        self.memories.append(added)

    def _update(self) -> None:
        text, memory = self.random.choice(TEXTS), self.random.choice(self.memories)
        t = self.random.choice([memory[0], memory[0], 1 - memory[0]])
        self.machine.update(t=t, memory=memory, text=text, ttl_s=self._ttl_s())

    def _delete(self) -> None:
        memory = self.random.choice(self.memories)
        t = self.random.choice([memory[0], memory[0], 1 - memory[0]])
        self.machine.delete(t=t, memory=memory)

    def _delete_all(self) -> None:
        self.machine.delete_all(**self._where())

    def _delete_where(self) -> None:
        self.machine.delete_where(**self._where(), mood=self._mood(), dry_run=self._mood())

    def _search(self) -> None:
        query, k = self.random.choice(TEXTS), self.random.randint(0, 6)
        mood = self.random.choice([None, True, False])
        self.machine.search(**self._where(), query=query, k=k, mood=mood)

    def _look(self) -> None:
        self.machine.look_through_the_indexes(**self._where())

    def _list(self) -> None:
        self.machine.list_pages(**self._where())

    def _make_handle(self) -> None:
        query, ttl_s = self.random.choice(TEXTS), self.random.randint(1, 200)
        self.handles.append(self.machine.make_handle(**self._where(), query=query, ttl_s=ttl_s))

    def _use_handle(self) -> None:
        if self.handles:
            self.machine.use_handle(
                t=self.random.randrange(2), handle=self.random.choice(self.handles)
            )

    def _look_back(self) -> None:
        self.moments.append(self.machine.note_the_moment())
        moment, query = self.random.choice(self.moments), self.random.choice(TEXTS)
        mood = self.random.choice([None, True, False])
        self.machine.look_back(**self._where(), moment=moment, query=query, mood=mood)

    def _wait(self) -> None:
        self.machine.wait(seconds=self.random.randint(1, 90))


@both
def test_short_runs(backend: Backend) -> None:
    run_state_machine_as_test(lambda: MemoryMachine(backend), settings=RUNS)


@both
def test_a_long_walk(backend: Backend) -> None:
    machine = MemoryMachine(backend)
    machine.start()
    walk = Walk(machine, seed=20_260_101)
    try:
        for number in range(STEPS[backend.name]):
            try:
                walk.step()
                if number % CHECK_EVERY == 0:
                    machine.nothing_contradicts()
            except Exception as error:
                error.add_note(f"in step {number} of the walk")
                raise
        machine.nothing_contradicts()
    finally:
        machine.teardown()
