"""The command `inferscale-sidecar`. Importing it is cheap: each command imports what it needs."""

import sys


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit: 0 ok, 1 failed, 2 usage, 3 engine unreachable, 130 stopped."""
    from inferscale_sidecar.cli.app import run

    sys.exit(run(sys.argv[1:] if argv is None else argv))
