"""What is asked of both arms, in which order, and the rows that come of it.

Owns fairness: every sample of one arm has one of the other beside it, with the same text, in random
order. Filling is never measured.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import _facts
from benchmarks._output import note
from benchmarks.service.mem0_arm import Mem0
from benchmarks.service.sidecar_arm import InferScale

MEASURED, LARGE = "measured", "large"
MEASURED_MEMORIES = 500
OTHER_MEMORIES = 100
"""So many has each of the other users."""
HITS = 10
RECALLED = 20
WARM_UP = 3

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        sizes: memories of the tenant, ascending.
        samples: of each operation at each size.
        one_user: memories of the user who has many.
    """

    sizes: tuple[int, ...]
    samples: int
    one_user: int


def run(
    sidecar: InferScale, mem0: Mem0 | None, plan: Plan, *, seed: int, mem0_limit: int
) -> list[Row]:
    """All rows."""
    return list(_Run(sidecar, mem0, plan, seed, mem0_limit).rows())


class _Run:
    def __init__(
        self, sidecar: InferScale, mem0: Mem0 | None, plan: Plan, seed: int, mem0_limit: int
    ) -> None:
        self._sidecar = sidecar
        self._mem0 = mem0
        self._plan = plan
        self._seed = seed
        self._mem0_limit = mem0_limit
        self._rng = random.Random(seed)
        self._questions = _facts.questions(seed)
        self._others = 0
        needed = max(plan.sizes) + 3 * plan.samples * len(plan.sizes) + plan.one_user
        self._facts = iter(_facts.facts(needed + 1_000, seed))

    def rows(self) -> Iterator[Row]:
        yield from self._rss(0)
        self._fill([(MEASURED, self._texts(MEASURED_MEMORIES))])
        yield from self._large()
        there = MEASURED_MEMORIES
        for size in self._plan.sizes:
            self._fill_others(size - there)
            there = size
            note(f"{size} memories in the tenant")
            yield from self._ops(size, MEASURED, ("add", "search", "recall"), "")
        yield from self._rss(there, search_all=True)

    def _large(self) -> Iterator[Row]:
        """While the store is small: Mem0 deletes row by row, each in time linear in the store."""
        size = self._plan.one_user
        self._fill([(LARGE, self._texts(size))])
        note(f"{size} memories of one user")
        first = self._sidecar.call("search", user_id=LARGE, query=next(self._questions), k=HITS)
        yield _row("first_search", "inferscale", size, [first[0]])
        yield from self._ops(size, LARGE, ("search", "recall"), "_one_user")
        for name, arm in self._arms():
            note(f"{name}: delete_all of {size}")
            elapsed_ms, _ = arm.call("delete_all", user_id=LARGE)
            left = arm.call("count", user_id=LARGE)[1]
            if left:
                note(f"{name}: {left} of {size} memories are still there")
            yield _row("delete_all", name, size, [elapsed_ms])

    def _ops(self, size: int, user: str, ops: Sequence[str], suffix: str) -> Iterator[Row]:
        for op in ops:
            arms = [each for each in self._arms() if (each[0], op) != ("mem0", "recall")]
            found: dict[str, list[float]] = {name: [] for name, _ in arms}
            for number in range(WARM_UP + self._plan.samples):
                asked = self._asked(op, user)
                for name, arm in self._rng.sample(arms, len(arms)):
                    elapsed_ms, result = arm.call(op, **asked)
                    if not result:
                        raise SystemExit(f"{name}: {op} gave nothing; there is nothing to measure")
                    if number >= WARM_UP:
                        found[name].append(elapsed_ms)
            for name, times in found.items():
                yield _row(op + suffix, name, size, times)

    def _asked(self, op: str, user: str) -> dict[str, Any]:
        if op == "add":
            return {"user_id": user, "text": next(self._facts)}
        k = HITS if op == "search" else RECALLED
        return {"user_id": user, "query": next(self._questions), "k": k}

    def _rss(self, size: int, *, search_all: bool = False) -> Iterator[Row]:
        for name, arm in self._arms():
            if search_all and name == "inferscale":  # mem0 holds everything in any case
                for number in range(self._others):
                    arm.call("search", user_id=f"other{number}", query="who?", k=1)
            yield _row("rss", name, size, []) | {"rss_mb": round(arm.call("rss")[1], 1)}

    def _arms(self) -> list[tuple[str, InferScale | Mem0]]:
        arms: list[tuple[str, InferScale | Mem0]] = [("inferscale", self._sidecar)]
        return [*arms, ("mem0", self._mem0)] if self._mem0 else arms

    def _texts(self, count: int) -> list[str]:
        return [next(self._facts) for _ in range(count)]

    def _fill_others(self, count: int) -> None:
        if self._mem0 and self._others * OTHER_MEMORIES + count > self._mem0_limit:
            note(f"mem0 is left out from here on: more than {self._mem0_limit} memories")
            self._mem0 = None
        users = []
        for at in range(0, count, OTHER_MEMORIES):
            texts = self._texts(min(OTHER_MEMORIES, count - at))
            users.append((f"other{self._others}", texts))
            self._others += 1
        self._fill(users)

    def _fill(self, users: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._seed += 1
        self._sidecar.fill(users, self._seed)
        for at, (user, texts) in enumerate(users):
            if self._mem0:
                self._mem0.fill(user, texts, self._seed * 10_000 + at)


def _row(op: str, system: str, memories: int, times: Sequence[float]) -> Row:
    p50 = p95 = None
    if times:
        p50 = round(statistics.median(times), 2)
        p95 = round(statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0], 2)
    return {
        "op": op,
        "system": system,
        "memories": memories,
        "p50_ms": p50,
        "p95_ms": p95,
        "samples": len(times),
        "rss_mb": None,
    }
