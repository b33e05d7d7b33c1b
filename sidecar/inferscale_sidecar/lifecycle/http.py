"""The HTTP server and the signals of the process, as uvicorn does not give them.

Owns the listening socket's errors, draining, and what SIGINT and SIGTERM mean.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext

import uvicorn
from fastapi import FastAPI

from inferscale_sidecar.errors import ConfigError


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address is taken, not ours, or not one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port (0 takes a free one)",
            param="server.port",
        ) from error
    # asyncio sets it only where the socket's protocol is named, which create_server leaves at 0.
    # Without it an answer of two writes waits 40 ms for the client's delayed ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Server(uvicorn.Server):
    """Leaves signals to us: a signal must also stop the engine, in order."""

    def capture_signals(self) -> "nullcontext[None]":  # type: ignore[override]
        return nullcontext()


@asynccontextmanager
async def serving(
    app: FastAPI, listener: socket.socket, *, drain_s: float, on_drain: Callable[[], None]
) -> AsyncIterator[None]:
    """Serve while the block runs; at its end let running requests finish.

    Args:
        drain_s: after this many seconds they are cut off.
        on_drain: called before draining begins.
    """
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=max(1, round(drain_s)),
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    try:
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        yield
    finally:
        on_drain()
        server.should_exit = True
        await task


class StopSignal:
    """SIGINT and SIGTERM as something to wait for. A second one ends the process at once."""

    def __init__(self) -> None:
        self._received: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        """Number of the signal that came."""
        return await asyncio.shield(self._received)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle both signals while the block runs."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        if self._received.done():
            os._exit(128 + number)  # the engine's guard sees us gone and stops it
        self._received.set_result(number)
