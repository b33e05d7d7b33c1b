"""What is done each time an engine has come up, and again if it was too busy to be judged."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.sidecar.engine.demo import demo_tokenizer
from tests.sidecar.engine.test_selftest import BusyEngine

from inferscale_sidecar.build.queue import BuildProgress
from inferscale_sidecar.engine.health import HealthBoard
from inferscale_sidecar.engine.selftest import ATTEMPTS
from inferscale_sidecar.lifecycle.watch import EngineWatch
from inferscale_sidecar.metrics import Metrics


class Board(HealthBoard):
    def show(self, state: Any) -> None:
        self._set(state)


@dataclass
class Queue:
    """Whether builds run, and whether they ran while the engine was tested."""

    engine: BusyEngine
    runs: bool = False
    ran_beside: list[bool] = field(default_factory=list)
    progress: BuildProgress = field(default_factory=BuildProgress)

    def start(self) -> None:
        self.runs = True

    async def stop(self) -> None:
        self.runs = False

    def reconnected(self) -> None:
        self.ran_beside.append(self.runs)


class Gate:
    applied = 0

    async def apply(self) -> None:
        self.applied += 1


@dataclass
class Parts:
    """The parts of a builder that the watch knows."""

    tokenizer: Any
    queue: Queue
    gate: Gate


@dataclass
class Host:
    board: Board
    client: Any


@asynccontextmanager
async def watching(engine: BusyEngine, **options: Any):
    parts, board = Parts(demo_tokenizer(), Queue(engine), Gate()), Board()
    async with engine.client() as client:
        host = Host(board, client)
        watch = EngineWatch(host, parts, Metrics(), **options)  # type: ignore[arg-type]
        board.show("ready")
        yield watch, parts, board


async def test_builds_wait_for_the_test_and_run_behind_it() -> None:
    async with watching(BusyEngine(0)) as (watch, parts, _):
        parts.queue.start()
        assert (await watch.engine_came_up()).passed
    assert parts.queue.runs and parts.queue.ran_beside == [False]
    assert parts.gate.applied == 1


async def test_a_busy_engine_is_tested_again_until_there_is_a_verdict() -> None:
    engine = BusyEngine(ATTEMPTS + 1)
    async with watching(engine, retest_s=0.01, pause_s=0) as (watch, parts, board):
        assert (await watch.engine_came_up()).is_busy
        assert "no verdict yet" in watch.readiness().parts["self_test"]
        running = asyncio.create_task(watch.run())
        async with asyncio.timeout(20):
            while not parts.gate.applied:
                await asyncio.sleep(0.01)
        assert watch.readiness().parts["self_test"].startswith("passed")
        tested = len(engine.builds)
        await asyncio.sleep(0.05)
        assert len(engine.builds) == tested, "a verdict is final until the engine is started again"
        board.show("stopped")
        await running
    assert engine.enabled and parts.queue.runs
