"""Finds the MCP server, if it is installed, and keeps it running.

It is an integration, which the sidecar must not depend on: so it is found by name, when it is
wanted, and what it must offer is `api.mcp.McpServer`.
"""

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from inferscale_sidecar.api.mcp import McpServer
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import ConfigError

log = logging.getLogger(__name__)
_PACKAGE = "inferscale_mcp"


def load_mcp(config: Config) -> McpServer | None:
    """The server for `/mcp`; None if the package mcp is missing. Takes half a second."""
    try:
        server: McpServer = import_module(_PACKAGE).HttpServer(
            is_loopback=_is_loopback(config.server.host)
        )
    except ImportError as error:
        log.info("/mcp is off: %s", error)
        return None
    return server


@asynccontextmanager
async def mcp_running(server: McpServer | None) -> AsyncIterator[None]:
    """The server serves within this block."""
    if server is None:
        yield
        return
    started, stop = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        # In a task of its own: what it enters must be left by the task that entered it.
        async with server.running():
            started.set()
            await stop.wait()

    task = asyncio.create_task(hold(), name="mcp")
    try:
        await started.wait()
        yield
    finally:
        stop.set()
        await task


def serve_stdio(scope: Mapping[str, str], *, base_url: str, api_key: str | None) -> None:
    """Serve one client over stdin and stdout until it hangs up.

    Raises:
        ConfigError: the package mcp is missing, or the scope is not one.
    """
    try:
        serve: Any = import_module(_PACKAGE).serve_stdio
    except ImportError as error:
        raise ConfigError(str(error)) from error
    try:
        serve(scope, base_url=base_url, api_key=api_key)
    except ValueError as error:  # the SDK's InvalidArgumentError is one
        raise ConfigError(str(error)) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
