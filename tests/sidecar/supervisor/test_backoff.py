"""Timing decisions, on a fake clock and fake processes: back-off, forgiveness, hang detection."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from inferscale_sidecar.engine.attach import Attachment
from inferscale_sidecar.engine.process import Command
from inferscale_sidecar.engine.supervisor import Policy, Supervisor
from inferscale_sidecar.errors import EngineUnavailable

POLICY = Policy(
    max_restarts=4, backoff_s=1, backoff_max_s=5, stable_after_s=60, poll_s=1, health_poll_s=1
)


class FakeClock:
    """Time passes only by sleeping, and then at once."""

    def __init__(self) -> None:
        self.time = 0.0
        self.naps: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class FakeChild:
    """Ends by itself at a time of the clock, or never."""

    def __init__(self, clock: FakeClock, lifetime_s: float | None) -> None:
        self.pid = 4711
        self.killed = False
        self._clock = clock
        self._ends_at = None if lifetime_s is None else clock.now() + lifetime_s

    async def wait(self) -> int:
        while not self.killed and (self._ends_at is None or self._clock.now() < self._ends_at):
            await asyncio.sleep(0)
        return 1

    def terminate(self) -> None:
        self.killed = True

    async def kill(self) -> None:
        self.killed = True


class FakeLauncher:
    def __init__(self, clock: FakeClock, lifetimes: list[float | None]) -> None:
        self.children: list[FakeChild] = []
        self._clock = clock
        self._lifetimes = lifetimes

    async def launch(self, command: Command, *, grace_s: float) -> FakeChild:
        lifetime = self._lifetimes[min(len(self.children), len(self._lifetimes) - 1)]
        self.children.append(FakeChild(self._clock, lifetime))
        return self.children[-1]


class BrokenLauncher:
    async def launch(self, command: Command, *, grace_s: float) -> FakeChild:
        raise FileNotFoundError(2, "No such file or directory")


async def run(
    lifetimes: list[float | None],
    answers: Callable[[FakeClock], bool] = lambda _clock: True,
    policy: Policy = POLICY,
) -> tuple[Supervisor, FakeLauncher, FakeClock]:
    """A supervisor that has given up."""
    clock = FakeClock()
    launcher = FakeLauncher(clock, lifetimes)

    async def probe() -> bool:
        return answers(clock)

    supervisor = Supervisor(Command(("engine",)), probe, launcher, policy, clock)
    await supervisor.start()
    async with asyncio.timeout(5):
        while supervisor.health.state != "failed":
            await asyncio.sleep(0)
    return supervisor, launcher, clock


async def test_backoff_doubles_up_to_its_limit() -> None:
    policy = replace(POLICY, poll_s=0.25, health_poll_s=0.25)
    _, launcher, clock = await run([0.5], policy=policy)
    assert [nap for nap in clock.naps if nap != 0.25] == [1, 2, 4, 5]
    assert len(launcher.children) == 5
    assert all(child.killed for child in launcher.children)


async def test_a_stable_time_forgives_earlier_crashes() -> None:
    _, launcher, _ = await run([1, 1, 100, 1])
    # Two early crashes, the stable life counts as the first again, then four more.
    assert len(launcher.children) == 2 + 1 + 4


async def test_a_hung_engine_is_restarted() -> None:
    policy = replace(POLICY, max_restarts=0, unhealthy_after=3)
    supervisor, launcher, _ = await run([None], lambda clock: clock.now() < 10, policy)
    assert "no answer to 3 health checks in a row" in supervisor.health.reason
    assert launcher.children[0].killed


async def test_one_missed_check_is_no_hang() -> None:
    policy = replace(POLICY, max_restarts=0, unhealthy_after=3)
    supervisor, _, clock = await run([500], lambda clock: clock.now() % 3 != 1, policy)
    assert "exit code 1 while serving" in supervisor.health.reason
    assert clock.now() >= 500


async def test_a_command_that_cannot_run_says_so() -> None:
    async def probe() -> bool:
        return False

    policy = replace(POLICY, max_restarts=0)
    supervisor = Supervisor(Command(("nowhere",)), probe, BrokenLauncher(), policy, FakeClock())
    await supervisor.start()
    with pytest.raises(EngineUnavailable, match="cannot run nowhere: No such file"):
        await supervisor.wait_ready()


async def test_attached_engine_comes_goes_and_comes_back() -> None:
    clock = FakeClock()
    answers = iter([False, True, True, False, True])
    seen: list[str] = []

    async def probe() -> bool:
        seen.append(attachment.health.state)
        try:
            return next(answers)
        except StopIteration:
            await asyncio.Event().wait()
            raise

    attachment = Attachment("http://engine", probe, start_timeout_s=60, clock=clock)
    await attachment.start()
    async with asyncio.timeout(5):
        while len(seen) < 6:
            await asyncio.sleep(0)
    assert seen == ["starting", "starting", "ready", "ready", "restarting", "ready"]
    assert attachment.health.restarts == 1
    await attachment.stop()
    assert attachment.health.state == "stopped"


async def test_attached_engine_that_never_answers_fails() -> None:
    async def probe() -> bool:
        return False

    attachment = Attachment("http://engine", probe, start_timeout_s=6, clock=FakeClock())
    await attachment.start()
    with pytest.raises(EngineUnavailable, match="no answer from http://engine in 6 s"):
        await attachment.wait_ready()
