"""`start` and `run`: a sidecar in the foreground, its stages on stderr, its URL on stdout."""

import asyncio
import logging
import os
import sys
from dataclasses import asdict

from inferscale_sidecar.cli.output import FAILED, Output
from inferscale_sidecar.config import Config
from inferscale_sidecar.lifecycle import Running, serve


def start_sidecar(config: Config, output: Output) -> int:
    """Serve until Ctrl-C or SIGTERM; the exit code."""

    async def announce(running: Running) -> None:
        text = f"ready: {running.url}  (model {running.model}, injection {running.injection})"
        output.data(asdict(running), text)
        output.note("stop with Ctrl-C")

    configure_logging(config.server.log_level)
    return asyncio.run(serve(config, output.stage, announce))


def run_with_sidecar(config: Config, output: Output, command: list[str]) -> int:
    """Run `command` beside a sidecar of its own; its exit code."""

    async def run(running: Running) -> int:
        env = {**os.environ, "INFERSCALE_BASE_URL": running.url}
        try:
            process = await asyncio.create_subprocess_exec(*command, env=env)
        except OSError as error:
            output.problem("command", f"cannot run {command[0]}: {error.strerror}", FAILED)
            return FAILED
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise

    configure_logging(config.server.log_level)
    return asyncio.run(serve(config, output.stage, run))


def configure_logging(level: str) -> None:
    """Ours at `level`, libraries' warnings only, all to stderr."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("inferscale_sidecar").setLevel(level.upper())
