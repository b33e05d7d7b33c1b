"""`python -m inferscale_mcp --user-id alice`: MCP over stdio; the sidecar may be elsewhere."""

import argparse
import os

from inferscale import SCOPE_IDS
from inferscale_mcp import serve_stdio


def main(arguments: list[str] | None = None) -> None:
    """Serve until the client hangs up."""
    parser = argparse.ArgumentParser(prog="python -m inferscale_mcp", description=__doc__)
    for name in SCOPE_IDS:
        env = f"INFERSCALE_{name.upper()}"
        parser.add_argument(
            f"--{name.replace('_', '-')}", default=os.environ.get(env), help=f"default: {env}"
        )
    parser.add_argument("--base-url", help="the sidecar; default: INFERSCALE_BASE_URL")
    given = parser.parse_args(arguments)
    scope = {n: v for n in SCOPE_IDS if (v := getattr(given, n))}
    if not scope:
        parser.error("whose memory? give --user-id, --agent-id, --run-id or --app-id")
    serve_stdio(scope, base_url=given.base_url)


if __name__ == "__main__":
    main()
