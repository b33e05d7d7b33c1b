"""Real processes, small times: what the supervisor tests share."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from inferscale_sidecar.engine.supervisor import Policy, Supervisor

FAKE = Path(__file__).with_name("fake_engine.py")
FAST = Policy(
    start_timeout_s=10,
    stop_timeout_s=1,
    max_restarts=3,
    backoff_s=0.01,
    poll_s=0.02,
    health_poll_s=0.02,
)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody has collected yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def eventually(check: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not check():
            await asyncio.sleep(0.02)


@dataclass
class Rig:
    """One supervisor and what its engine wrote."""

    supervisor: Supervisor
    pids_file: Path
    log: Path

    def pids(self) -> list[int]:
        """The server's pid and its child's; [] if it did not come that far."""
        if not self.pids_file.exists():
            return []
        return [int(word) for word in self.pids_file.read_text().split()]

    async def until(self, state: str) -> None:
        await eventually(lambda: self.supervisor.health.state == state)


MakeRig = Callable[..., Awaitable[Rig]]
