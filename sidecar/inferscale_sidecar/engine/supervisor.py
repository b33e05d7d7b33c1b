"""Keeps one vLLM running: start, health, restart with back-off, stop.

Owns the engine's life. Does not own its command line (`command`) nor talking to it (`client`).
Invariant: at most one engine process group at a time, and none after `stop`.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inferscale_sidecar.engine.health import (
    Clock,
    HealthBoard,
    Probe,
    SystemClock,
)
from inferscale_sidecar.engine.process import Child, Command, Launcher, tail

_TAIL_LINES = 12


@dataclass(frozen=True)
class Policy:
    """When to wait, to restart and to give up. All times in seconds."""

    start_timeout_s: float = 900
    stop_timeout_s: float = 15
    max_restarts: int = 5
    backoff_s: float = 1
    backoff_max_s: float = 60
    stable_after_s: float = 60
    """Ready for this long: earlier crashes are forgotten."""
    poll_s: float = 0.5
    """Between probes of a starting engine."""
    health_poll_s: float = 2
    """Between probes of a running engine."""
    unhealthy_after: int = 15
    """Failed probes in a row after which a running engine counts as hung."""


class Supervisor(HealthBoard):
    """Runs `command` and keeps it running until `stop`."""

    def __init__(
        self,
        command: Command,
        probe: Probe,
        launcher: Launcher,
        policy: Policy | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self._command = command
        self._probe = probe
        self._launcher = launcher
        self._policy = policy or Policy()
        self._clock = clock or SystemClock()
        self._task: asyncio.Task[None] | None = None
        self._child: Child | None = None

    async def start(self) -> None:
        """Begin; returns at once. Follow with `wait_ready`."""
        if self._task is None:
            self._set("starting")
            self._task = asyncio.create_task(self._run(), name="engine-supervisor")

    async def stop(self) -> None:
        """End the engine: SIGTERM, then SIGKILL for its whole group. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._child is not None:
            self._child.terminate()
            with suppress(TimeoutError):
                # The guard uses the policy's time itself; one second more for it to end.
                await asyncio.wait_for(self._child.wait(), self._policy.stop_timeout_s + 1)
            await self._child.kill()
            self._child = None
        self._set("stopped", "stopped")

    async def _run(self) -> None:
        crashes = 0
        while True:
            ready_at, reason = await self._one_life()
            if ready_at is not None and self._clock.now() - ready_at >= self._policy.stable_after_s:
                crashes = 0
            crashes += 1
            if crashes > self._policy.max_restarts:
                self._set("failed", f"gave up after {crashes} attempts: {reason}")
                return
            pause_s = self._policy.backoff_s * 2 ** (crashes - 1)
            self._set("restarting", reason, restarted=True)
            await self._clock.sleep(min(pause_s, self._policy.backoff_max_s))
            self._set("starting", reason)

    async def _one_life(self) -> tuple[float | None, str]:
        """Launch, watch until it ends or hangs, clean up: when it was ready, and what ended it."""
        try:
            self._child = await self._launch()
        except OSError as error:
            return None, f"cannot run {self._command.argv[0]}: {error.strerror or error}"
        exited = asyncio.ensure_future(self._child.wait())
        ready_at: float | None = None
        try:
            reason = await self._until_ready(exited)
            if not reason:
                ready_at = self._clock.now()
                self._set("ready", pid=self._child.pid)
                reason = await self._until_ill(exited)
        finally:
            exited.cancel()
        await self._child.kill()
        self._child = None
        return ready_at, self._with_log(reason)

    async def _launch(self) -> Child:
        """Launch, and know of the child even if `stop` comes meanwhile."""
        launch = asyncio.ensure_future(
            self._launcher.launch(self._command, grace_s=self._policy.stop_timeout_s)
        )
        try:
            return await asyncio.shield(launch)
        except asyncio.CancelledError:
            self._child = await launch
            raise

    async def _until_ready(self, exited: "asyncio.Future[int]") -> str:
        """Empty once the engine answers, else what went wrong."""
        deadline = self._clock.now() + self._policy.start_timeout_s
        while self._clock.now() < deadline:
            if exited.done():
                return f"exit code {exited.result()} while starting"
            if await self._probe():
                return ""
            await self._pause(exited, self._policy.poll_s)
        return f"no answer within {self._policy.start_timeout_s:g} s (engine.start_timeout_s)"

    async def _until_ill(self, exited: "asyncio.Future[int]") -> str:
        """Watch a ready engine; what ended it."""
        failures = 0
        while failures < self._policy.unhealthy_after:
            await self._pause(exited, self._policy.health_poll_s)
            if exited.done():
                return f"exit code {exited.result()} while serving"
            failures = 0 if await self._probe() else failures + 1
        return f"no answer to {failures} health checks in a row"

    async def _pause(self, exited: "asyncio.Future[int]", seconds: float) -> None:
        """Sleep until the next probe, less if the engine ends before."""
        nap = asyncio.ensure_future(self._clock.sleep(seconds))
        either: set[asyncio.Future[Any]] = {nap, exited}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()

    def _with_log(self, reason: str) -> str:
        lines = tail(self._command.log, _TAIL_LINES)
        return f"{reason}; last lines of {self._command.log}:\n{lines}" if lines else reason
