"""`mcp`: the MCP server over stdio, beside a sidecar that runs. Writes nothing to stdout itself."""

import os
from collections.abc import Mapping

from inferscale_sidecar.cli.remote import base_url
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.lifecycle.mcp import serve_stdio


def serve_mcp(
    config: Config, url: str | None, api_key: str | None, scope: Mapping[str, str]
) -> None:
    """Serve until the client hangs up.

    Raises:
        ConfigError: nobody is named, or the package mcp is missing.
    """
    if not scope:
        raise ConfigError("whose memory? give --user-id, --agent-id or --run-id")
    where = base_url(config, url or os.environ.get("INFERSCALE_BASE_URL"))
    serve_stdio(scope, base_url=where, api_key=api_key)
