"""The memory service alone, beside mem0ai with the same embedder, in turns in one run.

Rows: `op`, `system` (`inferscale` or `mem0`), `memories`, `p50_ms`, `p95_ms`, `samples`.

add, search, recall    of a user with 500 memories, while the tenant has `memories` in all
search_one_user, recall_one_user, first_search   of a user with `memories` (10,000)
delete_all             of a user with `memories` (10,000)
rss                    `rss_mb` with `memories`, after every user has searched; no times

The sidecar is a real server without an engine, asked by the Python SDK over HTTP. Mem0 runs in its
process without any server, which is the best case for it; its rows end at `--mem0-memories`.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from benchmarks import _output
from benchmarks._sidecar import add_flags, started
from benchmarks.service import mem0_arm
from benchmarks.service.measure import Plan, run
from benchmarks.service.sidecar_arm import InferScale

FULL = Plan(sizes=(1_000, 10_000, 100_000), samples=60, one_user=10_000)
QUICK = Plan(sizes=(1_000, 2_000), samples=12, one_user=1_000)


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    parser.add_argument("--no-mem0", action="store_true", help="the sidecar alone")
    parser.add_argument(
        "--mem0-python",
        type=Path,
        help="an interpreter that has mem0ai (default: an environment that is made once)",
    )
    parser.add_argument(
        "--mem0-memories",
        type=int,
        default=100_000,
        help="leave mem0 out beyond so many memories (default: 100000)",
    )
    options = parser.parse_args()
    machine = _output.machine()
    plan = QUICK if options.quick else FULL
    with ExitStack() as stack:
        mem0 = _mem0(options, stack)
        sidecar = InferScale(stack.enter_context(started(options, with_engine=False)))
        stack.callback(sidecar.close)
        rows = run(sidecar, mem0, plan, seed=options.seed, mem0_limit=options.mem0_memories)
        versions = mem0.versions if mem0 else {}
    _output.show("service", machine, rows, as_json=options.json, more_versions=versions)


def _mem0(options: argparse.Namespace, stack: ExitStack) -> mem0_arm.Mem0 | None:
    if options.no_mem0:
        return None
    python = options.mem0_python or mem0_arm.environment()
    return stack.enter_context(mem0_arm.started(python))


if __name__ == "__main__":
    main()
