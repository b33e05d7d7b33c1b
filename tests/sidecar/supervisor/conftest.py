"""A supervisor over `fake_engine.py`, and no process left after any test."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inferscale_sidecar.engine.process import Command, GroupLauncher
from inferscale_sidecar.engine.supervisor import Policy, Supervisor

from .rig import FAKE, FAST, MakeRig, Rig, eventually, is_alive


@pytest.fixture
async def make_rig(tmp_path: Path) -> AsyncIterator[MakeRig]:
    made: list[Rig] = []

    async def make(*arguments: str, policy: Policy = FAST) -> Rig:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        pids, log = tmp_path / "pids", tmp_path / "engine.log"
        argv = (sys.executable, str(FAKE), str(port), "--pids", str(pids), *arguments)

        async def answers() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return False
            writer.close()
            await writer.wait_closed()
            return True

        supervisor = Supervisor(Command(argv, log=log), answers, GroupLauncher(), policy)
        made.append(Rig(supervisor, pids, log))
        return made[-1]

    yield make
    for rig in made:
        await rig.supervisor.stop()
        # What SIGKILL was sent to takes a moment to be gone.
        await eventually(lambda rig=rig: not any(is_alive(pid) for pid in rig.pids()), 5)
