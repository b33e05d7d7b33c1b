"""An engine that somebody else runs: only its health is watched.

Owns the polling. Never starts, stops or restarts anything.
"""

import asyncio
from contextlib import suppress

from inferscale_sidecar.engine.health import Clock, HealthBoard, Probe, SystemClock


class Attachment(HealthBoard):
    """Watches the engine at `url` until `stop`.

    Args:
        url: for messages only.
        probe: whether it answers.
        start_timeout_s: how long it may be missing at first.
    """

    def __init__(
        self,
        url: str,
        probe: Probe,
        *,
        start_timeout_s: float,
        poll_s: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._url = url
        self._probe = probe
        self._start_timeout_s = start_timeout_s
        self._poll_s = poll_s
        self._clock = clock or SystemClock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to watch; returns at once."""
        if self._task is None:
            self._set("starting", f"waiting for {self._url}")
            self._task = asyncio.create_task(self._watch(), name="engine-attachment")

    async def stop(self) -> None:
        """Stop watching; the engine goes on."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        self._set("stopped", "detached")

    async def _watch(self) -> None:
        deadline = self._clock.now() + self._start_timeout_s
        was_ready = False
        while True:
            if await self._probe():
                if self._health.state != "ready":
                    self._set("ready", restarted=was_ready)
                was_ready = True
            elif was_ready and self._health.state == "ready":
                self._set("restarting", f"{self._url} does not answer any more")
            elif not was_ready and self._clock.now() >= deadline:
                self._set("failed", f"no answer from {self._url} in {self._start_timeout_s:g} s")
                return
            await self._clock.sleep(self._poll_s)
