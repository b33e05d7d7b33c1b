"""Many users at once: requests that arrive at a given rate, whether or not the engine keeps up.

Rows: `rate_rps` (requests per second that arrive, at random moments; null: 32 at the same moment),
`arm` (`stuffed` or `injected`), `p50_ttft_ms`, `p99_ttft_ms`, `throughput_rps` (finished per
second), `goodput_rps` (of those, with a first token within `SLO_MS`). Every request has 50 memories
of its own in a random order and gets 32 tokens; it goes straight to vLLM. TTFT counts from the
moment of arrival, so what waits in line is part of it. The arms take turns, slice by slice.
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

MEMORIES, ITEMS, TOKENS, BURST = 480, 50, 32, 32
SLO_MS = 1_000.0
RATES = (1.0, 2.0, 4.0)
QUICK_SLICE_S, SLICE_S = 6.0, 20.0
QUICK_ROUNDS, ROUNDS = 1, 2
ARMS = ("stuffed", "injected")
Body = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """One request: seconds from its arrival to the first token and to the last."""

    ttft_s: float
    total_s: float


@dataclass
class Slice:
    """What was served in one stretch of time, of so many seconds until the last answer ended."""

    served: list[Served]
    seconds: float


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    parser.add_argument("--rates", nargs="+", type=float, default=list(RATES), help="per second")
    parser.add_argument("--fidelity", choices=["balanced", "fast"], default="balanced")
    options = parser.parse_args()
    machine = _output.machine()
    with started(options) as sidecar, Memory(sidecar.url) as memory:
        remember(memory, MEMORIES, options.seed)
        found = _measure(sidecar, memory, options)
    rows = [row(rate, arm, slices) for (rate, arm), slices in found.items()]
    _output.show("load", machine, rows, as_json=options.json)


def _measure(
    sidecar: Sidecar, memory: Memory, options: argparse.Namespace
) -> dict[tuple[float | None, str], list[Slice]]:
    stored, questions = read_stored(sidecar, memory), _facts.questions(options.seed)
    seconds = QUICK_SLICE_S if options.quick else SLICE_S
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    rng = random.Random(options.seed)
    found: dict[tuple[float | None, str], list[Slice]] = {}
    with sidecar.engine_http() as http:
        engine = EngineArm(
            http, sidecar.model, sidecar.secret, stored, questions, options.seed, options.fidelity
        )
        engine.ask(engine.draw(ITEMS), inject=True)  # the tokens before the first item are captured

        def make(arm: str) -> Body:
            body, _ = engine.request(engine.draw(ITEMS), inject=arm == "injected")
            return body | {"max_tokens": TOKENS, "ignore_eos": True}

        for _ in range(rounds):
            for rate in (*options.rates, None):
                for arm in rng.sample(ARMS, len(ARMS)):
                    _output.note(f"{rate or 'all'} at once, {arm}")
                    at = arrivals(rate, seconds, rng)
                    part = asyncio.run(_serve(sidecar, [make(arm) for _ in at], at))
                    found.setdefault((rate, arm), []).append(part)
    return found


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
    first = None
    async with http.stream("POST", "/v1/chat/completions", content=content) as answer:
        if answer.status_code != 200:
            raise SystemExit(f"the engine answered {answer.status_code}: {await answer.aread()!r}")
        async for line in answer.aiter_lines():
            if first is None and line.startswith("data: {") and has_token(json.loads(line[6:])):
                first = time.perf_counter() - arrival
    if first is None:
        raise SystemExit("the engine answered without a token")
    return Served(first, time.perf_counter() - arrival)


def row(rate: float | None, arm: str, slices: Sequence[Slice]) -> _output.Row:
    """One row over all slices of an arm at a rate."""
    served = [one for part in slices for one in part.served]
    seconds = sum(part.seconds for part in slices)
    ttft_ms = np.array([one.ttft_s for one in served]) * 1e3
    return {
        "rate_rps": rate,
        "arm": arm,
        "p50_ttft_ms": round(float(np.percentile(ttft_ms, 50)), 2),
        "p99_ttft_ms": round(float(np.percentile(ttft_ms, 99)), 2),
        "throughput_rps": round(len(served) / seconds, 2),
        "goodput_rps": round(float((ttft_ms <= SLO_MS).sum()) / seconds, 2),
        "requests": len(served),
    }


if __name__ == "__main__":
    main()
