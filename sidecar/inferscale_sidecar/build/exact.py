"""Lazy exactness: a handle that is used again gets its exact KV into vLLM's own prefix cache.

Owns the counting of uses and the background prefills. A prefill is a plain low-priority request for
the tokens up to the end of the memory block; later calls of the handle are then native prefix hits,
with no approximation left in them. Invariants: no request waits for it, one prefill runs at a time,
and what fails or does not fit the queue costs nothing but the exactness.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inferscale_sidecar.build.send import BUILD_PRIORITY
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import SidecarError

log = logging.getLogger(__name__)

MAX_HANDLES = 4096
MAX_WAITING = 32


@dataclass(frozen=True)
class Rendering:
    """How a handle was rendered: what `/tokenize` takes, and whose cache the tokens go into."""

    handle: str
    body: Mapping[str, Any]
    cache_salt: str
    params: Mapping[str, Any]
    """`kv_transfer_params`: what it shows (`show_params`)."""


class LazyExactness:
    """See the module.

    Args:
        engine: where to.
        after_uses: the prefill follows so many uses of a handle.
    """

    def __init__(self, engine: Engine, *, after_uses: int) -> None:
        self._engine, self._after_uses = engine, after_uses
        self._uses: OrderedDict[str, int] = OrderedDict()
        self._waiting: asyncio.Queue[Rendering] = asyncio.Queue(MAX_WAITING)
        self._worker: asyncio.Task[None] | None = None

    def used(self, rendering: Rendering) -> None:
        """A request with this handle was answered from injected KV. Returns at once."""
        uses = self._uses.pop(rendering.handle, 0) + 1
        self._uses[rendering.handle] = uses
        if len(self._uses) > MAX_HANDLES:
            self._uses.popitem(last=False)
        if uses != self._after_uses:
            return
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait(rendering)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="lazy-exactness")

    async def wait_idle(self) -> None:
        """Returns once nothing is waiting or running."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait({self._worker})

    async def stop(self) -> None:
        """Aborts what is running and drops what waits."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        while not self._waiting.empty():
            rendering = self._waiting.get_nowait()
            try:
                await self._prefill(rendering)
            except SidecarError as error:
                log.warning("no exact KV for a handle that is in use: %s", error)

    async def _prefill(self, rendering: Rendering) -> None:
        model = self._engine.model
        ids = await self._engine.tokenize({"model": model, **rendering.body})
        body = {
            "model": model,
            "prompt": ids,
            "max_tokens": 1,
            "temperature": 0,
            "priority": BUILD_PRIORITY,
            "cache_salt": rendering.cache_salt,
            "kv_transfer_params": dict(rendering.params),
        }
        await self._engine.complete(body)
