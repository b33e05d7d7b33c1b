"""Times one framework's calls, in that framework's environment.

`python -m benchmarks.integrations.worker EXTRA URL CALLS SEED` prints milliseconds as JSON:
`{"by_hand": […], "attached": […], "remembered": […]}`; entries of the same place are one question.
Each question is asked in every way, in random order.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import sys
import time
import uuid
from importlib import import_module

from benchmarks import _facts
from benchmarks.integrations.arms import Arms, Call

from inferscale import Memory

MEMORIES, WARM_UP = 20, 10


async def main(extra: str, url: str, calls: int, seed: int) -> dict[str, list[float]]:
    """The times of `calls` questions, after some that warm up."""
    user = f"bench-{uuid.uuid4().hex}"
    with Memory(url) as memory:
        said = [{"role": "user", "content": fact} for fact in _facts.facts(MEMORIES, seed)]
        memory.add(said, user_id=user)
    module = import_module(f"benchmarks.integrations.arms.{extra.replace('-', '_')}")
    async with module.arms(url, user) as arms:
        return await _measured(arms, calls, seed)


async def _measured(arms: Arms, calls: int, seed: int) -> dict[str, list[float]]:
    rng, questions = random.Random(seed), _facts.questions(seed)
    ways: dict[str, Call] = {name: call for name, call in vars(arms).items() if call is not None}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM_UP + calls):
        question = next(questions)
        for name in rng.sample(list(ways), len(ways)):
            elapsed_ms = await _timed(ways[name], question)
            if number >= WARM_UP:
                found[name].append(elapsed_ms)
    return found


async def _timed(call: Call, question: str) -> float:
    started_at = time.perf_counter()
    answer = call(question)
    if inspect.isawaitable(answer):
        await answer
    return (time.perf_counter() - started_at) * 1e3


if __name__ == "__main__":
    name, address, count, start = sys.argv[1:]
    print(json.dumps(asyncio.run(main(name, address, int(count), int(start)))))
