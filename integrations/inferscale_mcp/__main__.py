"""`python -m inferscale_mcp --user-id alice`: the MCP server over stdio.

Standard output belongs to the protocol; whatever else is to be said goes to standard error.
"""

import argparse
import os

from inferscale import AsyncMemory
from inferscale_mcp import create_server


def main(arguments: list[str] | None = None) -> None:
    """Serve until the client hangs up."""
    parser = argparse.ArgumentParser(prog="python -m inferscale_mcp", description=__doc__)
    for name in ("user_id", "agent_id", "run_id"):
        env = f"INFERSCALE_{name.upper()}"
        parser.add_argument(
            f"--{name.replace('_', '-')}", default=os.environ.get(env), help=f"default: {env}"
        )
    parser.add_argument("--base-url", help="the sidecar; default: INFERSCALE_BASE_URL")
    given = parser.parse_args(arguments)
    scope = {n: v for n in ("user_id", "agent_id", "run_id") if (v := getattr(given, n))}
    if not scope:
        parser.error("whose memory? give --user-id, --agent-id or --run-id")
    create_server(AsyncMemory(given.base_url), scope).run("stdio")


if __name__ == "__main__":
    main()
