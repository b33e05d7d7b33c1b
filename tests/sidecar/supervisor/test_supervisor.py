"""The engine's life, on real processes: start, crash, restart, give up, stop; no orphans."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from inferscale_sidecar.engine import guard
from inferscale_sidecar.errors import EngineUnavailable

from .rig import FAKE, FAST, MakeRig, eventually, is_alive


async def test_start_serves_and_stop_leaves_nothing(make_rig: MakeRig) -> None:
    rig = await make_rig()
    assert rig.supervisor.health.state == "stopped"
    await rig.supervisor.start()
    assert rig.supervisor.health.state == "starting"
    await rig.supervisor.wait_ready()
    server, core = rig.pids()
    assert is_alive(server)
    assert is_alive(core)
    await rig.supervisor.stop()
    assert rig.supervisor.health.state == "stopped"
    await eventually(lambda: not is_alive(server) and not is_alive(core), 1)


async def test_killed_engine_is_restarted_and_its_child_does_not_survive(
    make_rig: MakeRig,
) -> None:
    rig = await make_rig()
    await rig.supervisor.start()
    await rig.supervisor.wait_ready()
    server, core = rig.pids()
    os.kill(server, signal.SIGKILL)
    await eventually(lambda: not is_alive(core))
    await eventually(lambda: rig.supervisor.health.restarts == 1)
    await rig.until("ready")
    assert rig.pids()[0] != server
    assert rig.log.with_name("engine.log.1").exists(), "the crashed start's log is kept"


async def test_crash_loop_ends_with_the_reason_and_the_log(make_rig: MakeRig) -> None:
    rig = await make_rig("--exit-after", "0")
    await rig.supervisor.start()
    with pytest.raises(EngineUnavailable) as caught:
        await rig.supervisor.wait_ready()
    assert "gave up after 4 attempts: exit code 7 while starting" in caught.value.message
    assert "boom: out of memory" in caught.value.message
    assert rig.supervisor.health.state == "failed"
    assert rig.supervisor.health.restarts == 3


async def test_stop_during_start(make_rig: MakeRig) -> None:
    rig = await make_rig("--delay", "60")
    await rig.supervisor.start()
    await eventually(lambda: len(rig.pids()) == 2)
    waiting = asyncio.create_task(rig.supervisor.wait_ready())
    await asyncio.sleep(0)
    await rig.supervisor.stop()
    with pytest.raises(EngineUnavailable, match="stopped"):
        await waiting


async def test_stop_kills_an_engine_that_ignores_sigterm(make_rig: MakeRig) -> None:
    rig = await make_rig("--ignore-term")
    await rig.supervisor.start()
    await rig.supervisor.wait_ready()
    async with asyncio.timeout(FAST.stop_timeout_s + 3):
        await rig.supervisor.stop()
    await eventually(lambda: not any(is_alive(pid) for pid in rig.pids()), 1)


async def test_start_timeout_names_the_setting(make_rig: MakeRig) -> None:
    policy = replace(FAST, start_timeout_s=0.2, max_restarts=0)
    rig = await make_rig("--delay", "60", policy=policy)
    await rig.supervisor.start()
    with pytest.raises(EngineUnavailable, match=r"engine\.start_timeout_s"):
        await rig.supervisor.wait_ready()


async def test_draining_is_said_and_stays_until_stop(make_rig: MakeRig) -> None:
    rig = await make_rig()
    await rig.supervisor.start()
    await rig.supervisor.wait_ready()
    rig.supervisor.begin_drain()
    os.kill(rig.pids()[0], signal.SIGKILL)
    await asyncio.sleep(0.2)
    assert rig.supervisor.health.state == "draining"
    await rig.supervisor.stop()
    assert rig.supervisor.health.state == "stopped"


async def test_stop_twice_and_start_again(make_rig: MakeRig) -> None:
    rig = await make_rig()
    await rig.supervisor.stop()
    await rig.supervisor.start()
    await rig.supervisor.wait_ready()
    await rig.supervisor.stop()
    await rig.supervisor.stop()
    await rig.supervisor.start()
    await rig.supervisor.wait_ready()


@pytest.mark.parametrize("ignore_term", [False, True])
async def test_engine_dies_with_a_sidecar_that_is_killed(
    tmp_path: Path, *, ignore_term: bool
) -> None:
    """`guard.py` alone, its standard input closing as it does when the sidecar is kill -9ed."""
    pids = tmp_path / "pids"
    command = [str(FAKE), "0", "--pids", str(pids)] + ["--ignore-term"] * ignore_term
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(guard.__file__), "0.3", sys.executable, *command),
        stdin=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    await eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    server, core = (int(word) for word in pids.read_text().split())
    assert process.stdin is not None
    process.stdin.close()
    await asyncio.wait_for(process.wait(), 5)
    await eventually(lambda: not is_alive(server) and not is_alive(core), 1)


async def test_guard_passes_the_exit_code_on() -> None:
    for code, expected in ((0, 0), (3, 3), ("os.kill(os.getpid(), 9)", 137)):
        script = f"import os, sys; sys.exit({code})"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(guard.__file__), "1", sys.executable, "-c", script),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert await process.wait() == expected
