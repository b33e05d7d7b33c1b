"""How long memories take until they can be injected.

Rows: `items`; `tokens` of their KV; `seconds` from the call of `add` that brings them all until the
last one is ready, recording, embedding and building included; `add_to_injectable_s`: the same for
one memory more, added to that user's list. Medians. Further fields: `add_s`, how long the call of
`add` took (the memories can be read and searched from then on), `runs` and `singles`.

Each run is another user with other texts, so nothing is there already.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import _facts, _output
from benchmarks._items import read_stored
from benchmarks._sidecar import Sidecar, add_flags, started

from inferscale import Memory

SIZES = (50, 200)
QUICK_RUNS, RUNS = 2, 5
QUICK_SINGLES, SINGLES = 4, 10
"""Single memories added in each run."""
POLL_S = 0.005
TIMEOUT_S = 600


@dataclass
class Run:
    """One user's list, from nothing."""

    tokens: int
    seconds: float
    add_s: float
    singles_s: list[float] = field(default_factory=list)


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    options = parser.parse_args()
    machine = _output.machine()
    runs = QUICK_RUNS if options.quick else RUNS
    singles = QUICK_SINGLES if options.quick else SINGLES
    found: dict[int, list[Run]] = {size: [] for size in SIZES}
    with started(options) as sidecar, Memory(sidecar.url) as memory:
        bench = Bench(sidecar, memory, options.seed)
        bench.run(10, 1)  # what the first build has to do once
        for number in range(runs):
            for size, kept in found.items():
                _output.note(f"run {number + 1} of {runs}: {size} items")
                kept.append(bench.run(size, singles))
    _output.show("build", machine, rows(found), as_json=options.json)


class Bench:
    """Adds memories and waits for their KV."""

    def __init__(self, sidecar: Sidecar, memory: Memory, seed: int) -> None:
        self._sidecar, self._memory, self._seed = sidecar, memory, seed
        self._users = 0

    def run(self, items: int, singles: int) -> Run:
        """A new user with so many items, then so many more, one by one."""
        self._users += 1
        user = f"bench-{self._users}"
        texts = _facts.facts(items + singles, self._seed + self._users)
        messages = [{"role": "user", "content": text} for text in texts[:items]]
        started_at = time.perf_counter()
        self._memory.add(messages, user_id=user, infer=False)
        add_s = time.perf_counter() - started_at
        _wait(self._all_ready, f"{items} memories were not built")
        seconds = time.perf_counter() - started_at
        stored = read_stored(self._sidecar, self._memory, user)
        run = Run(sum(item.num_tokens for item in stored.items), seconds, add_s)
        run.singles_s += [self._single(text, user) for text in texts[items:]]
        return run

    def _single(self, text: str, user: str) -> float:
        started_at = time.perf_counter()
        added = self._memory.add(text, user_id=user, infer=False).results[0]
        _wait(lambda: self._is_ready(added.id), "a memory was not built")
        return time.perf_counter() - started_at

    def _all_ready(self) -> bool:
        status = self._memory.builds()
        if status.failed:
            raise SystemExit(f"{status.failed} memories could not be built")
        return status.queued == status.building == 0

    def _is_ready(self, memory_id: str) -> bool:
        found = self._memory.get(memory_id)
        if found is None or found.kv_state == "failed":
            raise SystemExit(f"memory {memory_id} could not be built")
        return found.kv_state == "ready"


def _wait(is_done: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_done():
        if time.monotonic() > deadline:
            raise SystemExit(f"{failure} within {TIMEOUT_S} s")
        time.sleep(POLL_S)


def rows(found: dict[int, list[Run]]) -> list[dict[str, Any]]:
    """Medians of each size."""
    return [_row(items, runs) for items, runs in found.items()]


def _row(items: int, runs: Sequence[Run]) -> dict[str, Any]:
    singles = [seconds for run in runs for seconds in run.singles_s]
    return {
        "items": items,
        "tokens": round(statistics.median(run.tokens for run in runs)),
        "seconds": round(statistics.median(run.seconds for run in runs), 3),
        "add_to_injectable_s": round(statistics.median(singles), 4),
        "add_s": round(statistics.median(run.add_s for run in runs), 3),
        "runs": len(runs),
        "singles": len(singles),
    }


if __name__ == "__main__":
    main()
