"""InferScale as an MCP server: memory tools for any client that speaks the protocol.

Over stdio (`python -m inferscale_mcp`, `inferscale-sidecar mcp`), or inside the sidecar at `/mcp`.
The package mcp is imported when a name of this one is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

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
__getattr__, __dir__ = lazy_names(
    "inferscale_mcp",
    _WHERE,
    extra="mcp",
    frameworks=("mcp", "mcp_types"),
)
