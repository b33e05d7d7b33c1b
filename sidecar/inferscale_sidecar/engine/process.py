"""Starting a command so that it can be watched, stopped and never orphaned.

Owns process groups and log files. Does not own when to start again (`supervisor`).
Invariant: once `Child.kill` returned, every process of the command's group has got SIGKILL.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inferscale_sidecar.engine import guard

_TAIL_BYTES = 16_384


@dataclass(frozen=True)
class Command:
    """What to run. `env` is added to the sidecar's own environment and never logged."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    log: Path | None = None
    """File for stdout and stderr; the previous start's is kept beside it as `.1`."""


class Child(Protocol):
    """A running command."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int:
        """Exit code, once it ended by itself or was stopped."""
        ...

    def terminate(self) -> None:
        """Ask it to end. No effect if it has."""
        ...

    async def kill(self) -> None:
        """End all that is left of it and its children."""
        ...


class Launcher(Protocol):
    async def launch(self, command: Command, *, grace_s: float) -> Child:
        """Start it. `grace_s`: how long it may take to end once asked to.

        Raises:
            OSError: it cannot be started at all.
        """
        ...


class GroupChild:
    """A guarded command that leads its own process group."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        return await self._process.wait()

    def terminate(self) -> None:
        with suppress(ProcessLookupError):
            self._process.terminate()

    async def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # the group is empty already
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


class GroupLauncher:
    """Launches under `guard.py`, so that the command dies with the sidecar."""

    async def launch(self, command: Command, *, grace_s: float) -> Child:
        output = _open_log(command.log)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(guard.__file__),
                str(grace_s),
                *command.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **command.env},
                start_new_session=True,
            )
        finally:
            if output != asyncio.subprocess.DEVNULL:
                os.close(output)
        return GroupChild(process)


def _open_log(path: Path | None) -> int:
    if path is None:
        return asyncio.subprocess.DEVNULL
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_name(path.name + ".1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def tail(path: Path | None, lines: int) -> str:
    """The last lines of a log file, "" if there is none."""
    if path is None or not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
