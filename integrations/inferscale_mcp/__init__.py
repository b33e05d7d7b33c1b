"""InferScale as an MCP server: memory tools for any client that speaks the protocol.

Over stdio (`python -m inferscale_mcp`, `inferscale-sidecar mcp`), or inside the sidecar at `/mcp`.
The package mcp is imported when a name of this one is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferscale_mcp.http import HttpServer as HttpServer
    from inferscale_mcp.server import create_server as create_server
    from inferscale_mcp.stdio import serve_stdio as serve_stdio

_WHERE = {
    "HttpServer": "http",
    "create_server": "server",
    "serve_stdio": "stdio",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """The public names, each imported when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'inferscale_mcp' has no attribute {name!r}")
    try:
        module = import_module(f"inferscale_mcp.{_WHERE[name]}")
    except ImportError as error:  # mcp 1 is there, but has another interface
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ImportError(
            f"inferscale_mcp.{name} needs the package mcp 2.2 or newer: "
            "pip install 'inferscale-memory[mcp]'",
            name=error.name,
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
