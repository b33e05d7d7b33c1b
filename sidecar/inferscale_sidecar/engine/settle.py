"""Waits until the engine has written what a build captured: it answers before the disk does.

Owns the waiting. Invariant: a key is reported as stored only after the bank held it.
"""

import asyncio
import time
from collections.abc import Iterable

from inferscale_sidecar.engine.base import Engine

MAX_WAIT_S = 60.0
FIRST_PAUSE_S = 0.01
MAX_PAUSE_S = 0.25


async def settled(
    engine: Engine, stored: Iterable[str], pending: Iterable[str], *, max_wait_s: float = MAX_WAIT_S
) -> frozenset[str]:
    """The keys that the bank holds once nothing is on its way any more.

    Args:
        engine: asked again and again, ever less often.
        stored: keys that it holds already.
        pending: keys that are being written.
        max_wait_s: what is not written by then is not counted.

    Raises:
        EngineUnavailable: it went away; nothing is known about `pending`.
    """
    held, waiting = set(stored), set(pending)
    pause, deadline = FIRST_PAUSE_S, time.monotonic() + max_wait_s
    while waiting and time.monotonic() < deadline:
        await asyncio.sleep(pause)
        pause = min(MAX_PAUSE_S, 2 * pause)
        found = await engine.look_up(sorted(waiting))
        held |= found.present
        waiting = set(found.pending)
    return frozenset(held)
