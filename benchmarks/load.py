"""Many users at once: requests that arrive at a given rate, whether or not the engine keeps up.

Rows: `rate_rps` (requests per second that arrive, at random moments; null: 32 at the same moment),
`arm`, `p50_ttft_ms`, `p99_ttft_ms`, `throughput_rps` (finished per second), `goodput_rps` (of
those, with a first token within `SLO_MS`), `ratio` (of throughput, to the stuffed arm's at the same
rate), `p99_stall_ms` (the longest wait between two tokens of an answer), `requests`, `declined`
(requests of an injected arm whose report says that they were not injected whole; with more than
one in twenty nothing is printed). Arms: `stuffed`, `injected`, and for the burst `unthrottled`,
which is injected without `engine.inject_step_bytes`, in an engine of its own.

Every request has 50 memories of its own in a random order and gets 32 tokens; it goes straight to
vLLM. TTFT counts from the moment of arrival, so what waits in line is part of it. The arms of an
engine take turns, slice by slice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from benchmarks import _facts, _output
from benchmarks._arms import EngineArm, has_token
from benchmarks._items import read_stored, remember
from benchmarks._sidecar import Sidecar, add_flags, started

from inferscale import Memory
from inferscale.protocol.engine import SECRET_HEADER

MEMORIES, FEW, ITEMS, TOKENS, BURST = 480, 64, 50, 32, 32
SLO_MS = 1_000.0
QUICK_RATES, RATES = (1.0, 4.0), (1.0, 2.0, 4.0)
QUICK_SLICE_S, SLICE_S = 4.0, 20.0
QUICK_ROUNDS, ROUNDS = 1, 2
ARMS = ("stuffed", "injected")
UNTHROTTLED = "unthrottled"
MAX_DECLINED = 0.05
Body = dict[str, Any]
Cells = dict[tuple[float | None, str], list["Slice"]]


@dataclass(frozen=True)
class Served:
    """One request: seconds from its arrival to the first token and to the last, and the longest
    wait between two tokens."""

    ttft_s: float
    total_s: float
    stall_s: float = 0.0


@dataclass
class Slice:
    """What was served in one stretch of time, of so many seconds until the last answer ended.
    `declined`: of an injected arm, those that were not injected whole."""

    served: list[Served]
    seconds: float
    declined: int = 0


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    parser.add_argument("--rates", nargs="+", type=float, help="per second")
    parser.add_argument("--fidelity", choices=["balanced", "fast"], default="balanced")
    options = parser.parse_args()
    machine = _output.machine()
    rates = options.rates or (QUICK_RATES if options.quick else RATES)
    found: Cells = {}
    with started(options) as sidecar, Memory(sidecar.url) as memory:
        remember(memory, MEMORIES, options.seed)
        _measure(found, sidecar, memory, options, (*rates, None), ARMS)
    with (
        started(options, settings=["engine.inject_step_bytes=0"]) as sidecar,
        Memory(sidecar.url) as memory,
    ):
        remember(memory, FEW, options.seed)  # for one burst of shuffled lists that will do
        _measure(found, sidecar, memory, options, (None,), [UNTHROTTLED])
    stuffed = {rate: slices for (rate, arm), slices in found.items() if arm == "stuffed"}
    rows = [row(rate, arm, slices, stuffed[rate]) for (rate, arm), slices in found.items()]
    _output.show("load", machine, rows, as_json=options.json)


def _measure(
    found: Cells,
    sidecar: Sidecar,
    memory: Memory,
    options: argparse.Namespace,
    rates: Sequence[float | None],
    arms: Sequence[str],
) -> None:
    stored, questions = read_stored(sidecar, memory), _facts.questions(options.seed)
    seconds = QUICK_SLICE_S if options.quick else SLICE_S
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    rng = random.Random(options.seed)
    with sidecar.engine_http() as http:
        engine = EngineArm(
            http, sidecar.model, sidecar.secret, stored, questions, options.seed, options.fidelity
        )
        engine.ask(engine.draw(ITEMS), inject=True)  # the tokens before the first item are captured

        def make(arm: str) -> tuple[Body, str]:
            body, name = engine.request(engine.draw(ITEMS), inject=arm != "stuffed")
            return body | {"max_tokens": TOKENS, "ignore_eos": True}, name

        for _ in range(rounds):
            for rate in rates:
                for arm in rng.sample(arms, len(arms)):
                    _output.note(f"{'all at once' if rate is None else f'{rate}/s'}, {arm}")
                    at = arrivals(rate, seconds, rng)
                    made = [make(arm) for _ in at]
                    part = asyncio.run(_serve(sidecar, [body for body, _ in made], at))
                    part.declined = declined(http, [name for _, name in made if name])
                    found.setdefault((rate, arm), []).append(part)


def declined(http: httpx.Client, names: Sequence[str]) -> int:
    """Of requests that were to be injected, how many were not, by their reports.

    Raises:
        SystemExit: more than `MAX_DECLINED` of them: the arm is not what it is called.
    """
    reports = [http.get(f"/inferscale/reports/{name}").raise_for_status().json() for name in names]
    bad = [r for r in reports if not r["injected"] or r["reason"] not in (None, "native_hit")]
    if len(bad) > MAX_DECLINED * len(names):
        reasons = sorted({str(report["reason"]) for report in bad})
        raise SystemExit(f"{len(bad)} of {len(names)} were not injected ({', '.join(reasons)})")
    return len(bad)


def arrivals(rate: float | None, seconds: float, rng: random.Random) -> list[float]:
    """Moments of arrival in seconds: a Poisson process, or `BURST` of them at zero."""
    if rate is None:
        return [0.0] * BURST
    moments, now = [], rng.expovariate(rate)
    while now < seconds:
        moments.append(now)
        now += rng.expovariate(rate)
    return moments or [0.0]


async def _serve(sidecar: Sidecar, bodies: Sequence[Body], at: Sequence[float]) -> Slice:
    limits = httpx.Limits(max_connections=None)
    headers = {SECRET_HEADER: sidecar.secret, "content-type": "application/json"}
    async with httpx.AsyncClient(
        base_url=sidecar.engine_url, headers=headers, timeout=300, limits=limits, trust_env=False
    ) as http:
        start = time.perf_counter()
        tasks = [
            _one(http, json.dumps(b).encode(), start + t) for b, t in zip(bodies, at, strict=True)
        ]
        served = await asyncio.gather(*tasks)
        return Slice(list(served), time.perf_counter() - start)


async def _one(http: httpx.AsyncClient, content: bytes, arrival: float) -> Served:
    await asyncio.sleep(max(0.0, arrival - time.perf_counter()))
    moments: list[float] = []
    async with http.stream("POST", "/v1/chat/completions", content=content) as answer:
        if answer.status_code != 200:
            raise SystemExit(f"the engine answered {answer.status_code}: {await answer.aread()!r}")
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and has_token(json.loads(line[6:])):
                moments.append(time.perf_counter() - arrival)
    if not moments:
        raise SystemExit("the engine answered without a token")
    stall = float(np.diff(moments).max(initial=0.0))
    return Served(moments[0], time.perf_counter() - arrival, stall)


def row(
    rate: float | None, arm: str, slices: Sequence[Slice], stuffed: Sequence[Slice]
) -> _output.Row:
    """One row over all slices of an arm at a rate, beside those of the stuffed arm."""
    served = [one for part in slices for one in part.served]
    seconds = sum(part.seconds for part in slices)
    ttft_ms = np.array([one.ttft_s for one in served]) * 1e3
    stalls_ms = np.array([one.stall_s for one in served]) * 1e3
    return {
        "rate_rps": rate,
        "arm": arm,
        "p50_ttft_ms": round(float(np.percentile(ttft_ms, 50)), 2),
        "p99_ttft_ms": round(float(np.percentile(ttft_ms, 99)), 2),
        "throughput_rps": round(len(served) / seconds, 2),
        "goodput_rps": round(float((ttft_ms <= SLO_MS).sum()) / seconds, 2),
        "ratio": round(_throughput(slices) / _throughput(stuffed), 2),
        "p99_stall_ms": round(float(np.percentile(stalls_ms, 99)), 2),
        "requests": len(served),
        "declined": sum(part.declined for part in slices),
    }


def _throughput(slices: Sequence[Slice]) -> float:
    return sum(len(part.served) for part in slices) / sum(part.seconds for part in slices)


if __name__ == "__main__":
    main()
