"""Where an engine stands, observable by anyone: shared by the supervised and the attached engine.

Owns the states and who is woken by a change. Does not own what causes one.
Invariant: after `draining` comes only `stopped`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from inferscale_sidecar.errors import EngineUnavailable

EngineState = Literal["starting", "ready", "restarting", "draining", "stopped", "failed"]
Probe = Callable[[], Awaitable[bool]]
"""Whether the engine answers now. Must not raise."""


@dataclass(frozen=True)
class EngineHealth:
    """Where the engine stands. `reason` says why it is not ready, with the end of its log."""

    state: EngineState
    reason: str = ""
    restarts: int = 0
    pid: int | None = None


class Clock(Protocol):
    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class HealthBoard:
    """Holds the current `EngineHealth` and lets others wait for `ready`."""

    def __init__(self) -> None:
        self._health = EngineHealth("stopped", "not started")
        self._changed = asyncio.Event()

    @property
    def health(self) -> EngineHealth:
        """Where the engine stands now."""
        return self._health

    async def wait_ready(self) -> None:
        """Return when the engine answers.

        Raises:
            EngineUnavailable: it was given up or stopped; the message says why.
        """
        health = await self.wait_for("ready", "failed", "stopped")
        if health.state != "ready":
            raise EngineUnavailable(f"the engine did not start: {health.reason}")

    async def wait_for(self, *states: EngineState) -> EngineHealth:
        """Return when the engine is in one of these states."""
        while self._health.state not in states:
            self._changed.clear()
            await self._changed.wait()
        return self._health

    def begin_drain(self) -> None:
        """Take no new work: the state says so from now on; running requests go on."""
        if self._health.state in ("ready", "starting", "restarting"):
            self._set("draining", "shutting down")

    def _set(
        self,
        state: EngineState,
        reason: str = "",
        *,
        pid: int | None = None,
        restarted: bool = False,
    ) -> None:
        if self._health.state == "draining" and state != "stopped":
            return
        restarts = self._health.restarts + restarted
        self._health = EngineHealth(state, reason, restarts, pid)
        self._changed.set()
