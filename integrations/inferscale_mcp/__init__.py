"""InferScale as an MCP server: memory tools for any client that speaks the protocol.

`python -m inferscale_mcp` serves over stdio. The package mcp is imported when `create_server` is.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferscale_mcp.server import create_server as create_server

__all__ = ["create_server"]


def __getattr__(name: str) -> Any:
    """`create_server`, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'inferscale_mcp' has no attribute {name!r}")
    try:
        from inferscale_mcp import server
    except ImportError as error:  # mcp 1 is there, but has another interface
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ImportError(
            f"inferscale_mcp.{name} needs the package mcp 2.2 or newer: "
            "pip install 'inferscale-memory[mcp]'",
            name=error.name,
        ) from None
    return getattr(server, name)


def __dir__() -> list[str]:
    return __all__
