"""Follows the engine through its restarts: self-test after each start, builds resume, state told.

Owns the self-test's verdict and the readiness that `/ready` shows. Does not own the engine's life.
"""

import asyncio
import logging
from contextlib import suppress

from inferscale_sidecar.api.routes.health import ReadyState
from inferscale_sidecar.engine.absent import Absence
from inferscale_sidecar.engine.selftest import SelfTestResult, self_test
from inferscale_sidecar.errors import EngineUnavailable, SidecarError
from inferscale_sidecar.lifecycle.builder import Builder
from inferscale_sidecar.lifecycle.host import EngineHost
from inferscale_sidecar.metrics import Metrics

log = logging.getLogger(__name__)


class EngineWatch:
    """What is to be done each time the engine has come up.

    Args:
        host: the engine.
        builder: None if nothing is to be injected.
        metrics: gets the engine's gauges.
        retest_s: until a self-test without a verdict, for want of a quiet engine, is repeated.
        pause_s: between the attempts of one.
    """

    def __init__(
        self,
        host: EngineHost,
        builder: Builder | None,
        metrics: Metrics,
        *,
        retest_s: float = 300.0,
        pause_s: float = 1.0,
    ) -> None:
        self._host = host
        self._builder = builder
        self._metrics = metrics
        self._retest_s, self._pause_s = retest_s, pause_s
        self._verdict: SelfTestResult | None = None
        self._off_reason = ""
        metrics.engine_up.set_function(
            lambda: host.board.health.state == "ready" and not isinstance(host.board, Absence)
        )
        metrics.injection_enabled.set_function(lambda: host.client.can_inject)

    async def run(self) -> None:
        """From a running engine through all its restarts, until cancelled or it is given up."""
        board = self._host.board
        while True:
            is_undecided = self._verdict is not None and self._verdict.is_busy
            changed = board.wait_for("restarting", "starting", "failed", "stopped")
            with suppress(TimeoutError):
                await asyncio.wait_for(changed, self._retest_s if is_undecided else None)
            if (await board.wait_for("ready", "failed", "stopped")).state != "ready":
                return
            try:
                await self.engine_came_up()
            except EngineUnavailable as error:
                log.warning("%s", error)

    async def engine_came_up(self) -> SelfTestResult:
        """Self-test, then builds. Raises EngineUnavailable if it went away meanwhile."""
        engine, builder = self._host.client, self._builder
        if builder is None:
            self._verdict = SelfTestResult(None, "not run: injection is off")
            await self._switch_off("no memory can be built for this model or by these settings")
        else:
            await builder.queue.stop()  # nothing of ours in a batch with the test
            try:
                self._verdict = await self_test(engine, builder.tokenizer, pause_s=self._pause_s)
                if self._verdict.passed:
                    await builder.gate.apply()
            finally:
                builder.queue.reconnected()
                builder.queue.start()
        injection = (await engine.status())["injection"]
        self._off_reason = str(injection["reason"] or "") if not injection["enabled"] else ""
        self._metrics.serve_model(engine.model)
        return self._verdict

    async def _switch_off(self, reason: str) -> None:
        try:
            await self._host.client.set_injection(False, reason)
        except EngineUnavailable:
            raise
        except SidecarError as error:
            log.warning("injection could not be switched off in the engine: %s", error)

    def readiness(self) -> ReadyState:
        """Ready once requests can be answered; each part in one short line."""
        health = self._host.board.health
        parts = {"engine": _line(health.state, health.reason)}
        if health.restarts:
            parts["restarts"] = str(health.restarts)
        if health.state == "ready":
            parts |= self._ready_parts()
        return ReadyState(health.state == "ready", parts)

    def _ready_parts(self) -> dict[str, str]:
        client, verdict = self._host.client, self._verdict
        parts = {"injection": "on" if client.can_inject else _line("off", self._off_reason)}
        if verdict is not None:
            name = {True: "passed", False: "failed", None: "not run"}[verdict.passed]
            name = "no verdict yet" if verdict.is_busy else name
            parts["self_test"] = _line(name, verdict.detail)
        if self._builder is not None:
            progress = self._builder.queue.progress
            counts = f"{progress.built} built, {progress.in_flight} in flight"
            failed = f", {progress.failed} failed" if progress.failed else ""
            parts["builds"] = _line(counts + failed, progress.last_error or "")
        with suppress(EngineUnavailable):  # it may go away between two lines
            parts["model"] = client.model
        return parts


def _line(state: str, reason: str) -> str:
    """State and first line of the reason; the rest, such as a log's end, is not for everybody."""
    first = reason.partition("\n")[0]
    return f"{state}: {first}" if first else state
