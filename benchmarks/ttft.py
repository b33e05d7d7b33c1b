"""Time to first token with memory: as text, injected, and what stands beside the two.

Rows: `via` (`sdk`: an agent, recall included; `engine`: prepared bodies straight to vLLM, no
recall), `items`, `tokens` of the prompt, and medians in milliseconds:

  stuffed_ms     the memory as text, in a composition that no cache holds
  injected_ms    another such composition, injected: the first call of a handle
  reuse_ms       the second call of that handle, with another question (no recall any more)
  no_memory_ms   a question without memory
  native_hit_ms  the stuffed composition again, with another question: vLLM's own prefix cache
  copy_ms        the injection's copy alone, measured offline on the same items: bank → rotation →
                 the engine's own cache writer (`benchmarks/_copy.py`)
  memcpy_ms      a plain memcpy of the same bytes, in turns with it

All arms and sizes take turns in one run, in another order each round. A sample whose report does
not say what its arm claims is drawn again and counted in `rejected`.
"""

from __future__ import annotations

import argparse

from benchmarks import _copy, _facts, _output, _rounds
from benchmarks._arms import SYSTEM, EngineArm, SdkArm
from benchmarks._items import read_stored, remember
from benchmarks._sidecar import Sidecar, add_flags, started

from inferscale import Memory
from inferscale_sidecar.compose.frame import MemoryFrame

MEMORIES = 480
QUICK_SIZES, SIZES = (5, 20, 50), (5, 20, 50, 200)
QUICK_REPEATS, REPEATS = 9, 21


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    parser.add_argument(
        "--fidelity",
        choices=["balanced", "fast"],
        default="balanced",
        help="balanced (default): the two best memories are prefilled; fast: none",
    )
    options = parser.parse_args()
    machine = _output.machine()
    sizes = QUICK_SIZES if options.quick else SIZES
    with started(options) as sidecar:
        with Memory(sidecar.url) as memory:
            remember(memory, MEMORIES, options.seed)
            cells, jobs = _measure(sidecar, memory, sizes, options)
        bank = _copy.BankFile.of(sidecar)
        copies = {}
        if bank is not None:
            _output.note("timing the copy alone")
            copies = _copy.measure(bank, jobs, repeats=15 if options.quick else 41)
    rows = [{**row, "fidelity": options.fidelity} for row in _rounds.rows(cells, copies)]
    _output.show("ttft", machine, rows, as_json=options.json)


def _measure(
    sidecar: Sidecar, memory: Memory, sizes: tuple[int, ...], options: argparse.Namespace
) -> tuple[_rounds.Cells, list[_copy.Job]]:
    questions = _facts.questions(options.seed)
    stored = read_stored(sidecar, memory)
    with sidecar.engine_http() as http:
        engine = EngineArm(
            http,
            sidecar.model,
            sidecar.secret,
            stored,
            questions,
            options.seed,
            options.fidelity,
        )
        arms: list[_rounds.Arm] = [SdkArm(memory, questions, options.fidelity), engine]
        head = {"role": "system", "content": f"{SYSTEM}\n\n{MemoryFrame.heading}"}
        tokens = http.post("/tokenize", json={"model": sidecar.model, "messages": [head]}).json()
        repeats = QUICK_REPEATS if options.quick else REPEATS
        _output.note(f"{repeats} rounds of {len(arms)} arms at {', '.join(map(str, sizes))} items")
        cells = _rounds.measure(
            arms, sizes, repeats=repeats, head_tokens=len(tokens["tokens"]), seed=options.seed
        )
        return cells, [_copy.Job.of(engine, stored, size) for size in sizes]


if __name__ == "__main__":
    main()
