"""Facts to injectable items under an encode policy, with the sidecar's own code.

Owns which facts form a window. The prompt, the capture and the key of each come from
`build.window`, so what is measured is what the product builds.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.quality.cases import Pool

from inferscale.protocol.engine import Capture
from inferscale_sidecar.build.policy import EncodePolicy
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.build.window import WindowLimits, plan_window
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.core import BuildItem, Tenant
from inferscale_sidecar.engine.client import EngineClient

TENANT = Tenant("quality", "quality", bytes(range(32)))
AT_ONCE = 4


@dataclass(frozen=True)
class Built:
    """A pool's items under one policy.

    Attributes:
        keys: key of each fact; empty for one that could not be built.
        tokens: prompt tokens of all builds, context included.
        seconds: all builds together.
        behind: mean number of other facts that an item's KV depends on.
    """

    keys: tuple[str, ...]
    tokens: int
    seconds: float
    behind: float


async def build(
    client: EngineClient,
    lists: ListTokenizer,
    pool: Pool,
    vectors: np.ndarray,
    policy: EncodePolicy,
    wanted: frozenset[int],
) -> Built:
    """Encodes facts of a pool.

    Args:
        vectors: unit vectors `[facts, dim]`.
        wanted: numbers of the facts that will be asked for; isolated policies build only those.
    """
    items = [
        BuildItem(f"{pool.name}-{n}", 1, "quality", "user:q", t) for n, t in enumerate(pool.facts)
    ]
    limits = WindowLimits(policy=policy.name)
    prompts = [
        plan_window(
            [items[n] for n in window],
            items[max(0, min(window) - policy.count("recent")) : min(window)],
            similar=[items[n] for n in _similar(vectors, window, policy.count("similar"))],
            tenant=TENANT,
            model=client.model,
            lists=lists,
            limits=limits,
        )
        for window in _windows(vectors, policy, limits.items, wanted)
    ]
    start = time.perf_counter()
    gate = asyncio.Semaphore(AT_ONCE)
    salt = f"{pool.name} {policy.name} {start}"  # the made-up context of all is one prefix hit

    async def send(ids: Sequence[int], captures: Sequence[Capture]) -> frozenset[str]:
        async with gate:
            return await send_build(
                client, ids, tag=tenant_tag(TENANT), captures=captures, cache_salt=salt
            )

    stored = frozenset().union(*await asyncio.gather(*(send(p.ids, p.captures) for p in prompts)))
    planned = [p for prompt in prompts for p in prompt.planned if p.capture.key in stored]
    keys = {p.item.memory_id: p.capture.key for p in planned}
    return Built(
        keys=tuple(keys.get(item.memory_id, "") for item in items),
        tokens=sum(len(p.ids) for p in prompts),
        seconds=time.perf_counter() - start,
        behind=float(np.mean([len(p.behind) for p in planned])),
    )


def _windows(
    vectors: np.ndarray, policy: EncodePolicy, limit: int, wanted: frozenset[int]
) -> Iterator[list[int]]:
    """Numbers of the facts of each build, oldest first inside a window."""
    if policy.is_isolated:
        yield from ([n] for n in sorted(wanted))
        return
    size = policy.window(limit)
    for first in range(0, len(vectors), size):
        yield list(range(first, min(first + size, len(vectors))))


def _similar(vectors: np.ndarray, window: Sequence[int], count: int) -> list[int]:
    """The facts closest to a window's mean, without its own, best last."""
    scores = vectors @ vectors[list(window)].mean(0)
    scores[list(window)] = -np.inf
    best = np.argsort(-scores, kind="stable")[: min(count * 2, len(vectors) - len(window))]
    return [int(n) for n in best[::-1]]
