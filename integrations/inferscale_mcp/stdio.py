"""The MCP server over stdio: one process for one client and one scope.

Standard output belongs to the protocol; whatever else is to be said goes to standard error.
"""

from collections.abc import Mapping

from inferscale import AsyncMemory
from inferscale_mcp.server import create_server


def serve_stdio(
    scope: Mapping[str, str], *, base_url: str | None = None, api_key: str | None = None
) -> None:
    """Serve until the client hangs up.

    Args:
        scope: whose memory: `user_id`, `agent_id`, `run_id`, `app_id`, at least one.
        base_url: the sidecar; default INFERSCALE_BASE_URL.
        api_key: default INFERSCALE_API_KEY.

    Raises:
        InvalidArgumentError: no id, an unknown one, or an address that is none.
    """
    create_server(AsyncMemory(base_url, api_key=api_key), scope).run("stdio")
