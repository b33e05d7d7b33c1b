"""The rounds of `benchmarks.ttft`: all arms in turns, and whether each did what it is named for.

Owns order and admission of samples. Knows no HTTP. Invariant: a sample counted as stuffed found
nothing of its memory in a cache; one counted as injected had all injected that may be, found
nothing in vLLM's own cache beyond the head of the prompt, and was asked for the first time.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

KINDS = ("stuffed", "injected", "reuse", "no_memory", "native_hit")
MAX_DRAWS = 6
SETTLE_S = 0.02
"""Pause between requests: the sidecar asks for a stream's report after its end."""


@dataclass(frozen=True)
class Sample:
    """One timed request.

    Attributes:
        ms: until the first token arrived, milliseconds.
        tokens: of the prompt.
        injected, native: of those, from the bank and from vLLM's own prefix cache.
        mode: `none` without memory, `text`, `injected`, or `partial`.
        recall_ms: part of `ms` that was spent on recall; None if there was none.
    """

    ms: float
    tokens: int
    injected: int
    native: int
    mode: str
    recall_ms: float | None = None


class Turn(Protocol):
    """One composition."""

    def ask(self, *, inject: bool) -> Sample:
        """Time one request with it."""


class Arm(Protocol):
    """One way to the first token."""

    @property
    def via(self) -> str: ...

    def turn(self, items: int) -> Turn:
        """A composition of so many memories that was not used before."""

    def no_memory(self) -> Sample:
        """The same kind of request without memory."""


@dataclass
class Cell:
    """Samples of one arm at one number of items."""

    samples: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    rejected: int = 0

    def median_ms(self, kind: str) -> float:
        return round(statistics.median(sample.ms for sample in self.samples[kind]), 2)

    def median_tokens(self, *kinds: str) -> int:
        return round(statistics.median(s.tokens for kind in kinds for s in self.samples[kind]))


Cells = dict[tuple[str, int], Cell]


def measure(
    arms: Sequence[Arm],
    sizes: Sequence[int],
    *,
    repeats: int,
    head_tokens: int,
    seed: int,
) -> Cells:
    """All arms at all sizes, in another order each round. The first round is not counted.

    Args:
        head_tokens: of the prompt up to the first memory: what any request may find cached.
    """
    rng = random.Random(seed)
    cells: Cells = {}
    for number in range(repeats + 1):
        if number == 1:
            cells = {}  # what was slow because it was the first of its kind
        order = [(arm, size) for arm in arms for size in sizes]
        rng.shuffle(order)
        for arm, size in order:
            _round(arm, size, cells.setdefault((arm.via, size), Cell()), head_tokens, rng)
    return cells


def _round(arm: Arm, size: int, cell: Cell, head_tokens: int, rng: random.Random) -> None:
    groups = ["plain", "text", "kv"]
    rng.shuffle(groups)
    for group in groups:
        time.sleep(SETTLE_S)
        if group == "plain":
            cell.samples["no_memory"].append(arm.no_memory())
            continue
        inject = group == "kv"
        turn, sample = _fresh(arm, size, cell, head_tokens, inject=inject)
        cell.samples["injected" if inject else "stuffed"].append(sample)
        time.sleep(SETTLE_S)
        cell.samples["reuse" if inject else "native_hit"].append(turn.ask(inject=inject))


def _fresh(
    arm: Arm, size: int, cell: Cell, head_tokens: int, *, inject: bool
) -> tuple[Turn, Sample]:
    """A composition at its first request."""
    sample = None
    for _ in range(MAX_DRAWS):
        turn = arm.turn(size)
        sample = turn.ask(inject=inject)
        if is_what_it_says(sample, head_tokens, inject=inject):
            return turn, sample
        cell.rejected += 1
    wanted = "injected" if inject else "stuffed"
    raise SystemExit(f"{MAX_DRAWS} requests via {arm.via} in a row were not {wanted}: {sample}")


def is_what_it_says(sample: Sample, head_tokens: int, *, inject: bool) -> bool:
    """See the module's invariant."""
    if sample.native > head_tokens:
        return False
    if not inject:
        return sample.mode == "text" and sample.injected == 0
    return sample.mode == "injected" and sample.injected > 0


def rows(cells: Cells, copies: Mapping[int, tuple[float, float]]) -> list[dict[str, Any]]:
    """Medians.

    Args:
        copies: items → milliseconds of the injection's copy, and of a memcpy of the same bytes;
            an item count may be missing.
    """
    return [
        row(via, items, cell, copies.get(items)) for (via, items), cell in sorted(cells.items())
    ]


def row(via: str, items: int, cell: Cell, copy: tuple[float, float] | None) -> dict[str, Any]:
    """One row: the fields that every run has, then what explains them."""
    injected = cell.samples["injected"]
    recalls = [s.recall_ms for s in injected if s.recall_ms is not None]
    stuffed_ms, injected_ms = cell.median_ms("stuffed"), cell.median_ms("injected")
    return {
        "via": via,
        "items": items,
        "tokens": cell.median_tokens("stuffed", "injected"),
        "stuffed_ms": stuffed_ms,
        "injected_ms": injected_ms,
        **{f"{kind}_ms": cell.median_ms(kind) for kind in KINDS[2:]},
        "copy_ms": round(copy[0], 3) if copy else None,
        "memcpy_ms": round(copy[1], 3) if copy else None,
        "ratio": round(stuffed_ms / injected_ms, 2),
        "injected_tokens": round(statistics.median(s.injected for s in injected)),
        "recall_ms": round(statistics.median(recalls), 2) if recalls else None,
        "samples": len(injected),
        "rejected": cell.rejected,
    }
