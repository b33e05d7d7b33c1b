"""Flags of the `bank` commands."""

from typing import Annotated

import typer

from inferscale_sidecar.cli.flags import ConfigFile, Json, Sets, load_settings
from inferscale_sidecar.cli.output import Output
from inferscale_sidecar.errors import InvalidInput

Namespace = Annotated[
    str, typer.Option("--namespace", help="Only banks whose fingerprint begins so.")
]
bank = typer.Typer(help="The KV bank: sizes, checks, space.", no_args_is_help=True)


def add_bank_commands(app: typer.Typer) -> None:
    """Adds them to the command line."""
    app.add_typer(bank, name="bank")


@bank.command("stats")
def stats(
    namespace: Namespace = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Show what the banks hold, one per model and rank. Reads no items."""
    _run("stats", namespace, config, sets, as_json)


@bank.command("verify")
def verify(
    namespace: Namespace = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Read all items and compare them with their checksums. Safe while the engine runs."""
    _run("verify", namespace, config, sets, as_json)


@bank.command("compact")
def compact(
    namespace: Namespace = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Give unused space back to the disk. The engine must be stopped."""
    _run("compact", namespace, config, sets, as_json)


@bank.command("purge")
def purge(
    everything: Annotated[
        bool, typer.Option("--everything", help="All items: they are built again on demand.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before erasing all.")] = False,
    namespace: Namespace = "",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Erase what was deleted, without the usual half minute. Safe while the engine runs."""
    if everything and not yes:
        if as_json:
            raise InvalidInput("--everything erases all items; add --yes to do so with --json")
        typer.confirm("Erase all items? They are built again when they are needed", abort=True)
    _run("purge", namespace, config, sets, as_json, everything=everything)


def _run(
    action: str,
    namespace: str,
    config: ConfigFile,
    sets: Sets,
    as_json: bool,
    *,
    everything: bool = False,
) -> None:
    from inferscale_sidecar.cli.bank import look_after_bank

    settings, output = load_settings(config, sets), Output(as_json=as_json)
    raise typer.Exit(
        look_after_bank(settings, output, action, namespace=namespace, everything=everything)
    )
