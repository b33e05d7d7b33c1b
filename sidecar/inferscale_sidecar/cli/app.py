"""The commands and their flags. Thin: each parses, then calls a function of a sibling module.

Owns names, help texts and the way from an exception to an exit code. Imports nothing heavy.
"""

import sys
from typing import Annotated

import typer

from inferscale_sidecar.cli.bank_commands import add_bank_commands
from inferscale_sidecar.cli.flags import (
    ApiKey,
    ConfigFile,
    EngineUrl,
    Host,
    Json,
    Model,
    Port,
    Sets,
    TenantName,
    Url,
    Words,
    load_settings,
)
from inferscale_sidecar.cli.mcp_command import add_mcp_command
from inferscale_sidecar.cli.output import INTERRUPTED, OK, USAGE, Output
from inferscale_sidecar.cli.transfer_commands import add_transfer_commands
from inferscale_sidecar.errors import ConfigError, SidecarError

app = typer.Typer(
    name="inferscale-sidecar",
    help="Long-term memory beside vLLM: the memory is injected as KV, not read again.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
keys = typer.Typer(help="API keys, straight in the database.", no_args_is_help=True)
app.add_typer(keys, name="keys")
tenants = typer.Typer(help="Tenants, straight in the database.", no_args_is_help=True)
app.add_typer(tenants, name="tenants")

add_transfer_commands(app)
add_bank_commands(app)
add_mcp_command(app)


@app.command()
def start(
    arguments: Words = None,
    model: Model = None,
    engine_url: EngineUrl = None,
    no_engine: Annotated[
        bool, typer.Option("--no-engine", help="Memory only: no vLLM, chats answer 503.")
    ] = False,
    host: Host = None,
    port: Port = None,
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Start the sidecar and its vLLM; words after -- go to vLLM. Ends on Ctrl-C or SIGTERM."""
    from inferscale_sidecar.cli.start import start_sidecar

    settings = load_settings(
        config,
        sets,
        engine__model=model,
        engine__url=engine_url,
        engine__enabled=False if no_engine else None,
        engine__args=tuple(arguments) if arguments else None,
        server__host=host,
        server__port=port,
    )
    raise typer.Exit(start_sidecar(settings, Output(as_json=as_json)))


@app.command("run")
def run_command(
    command: Words = None,
    model: Model = None,
    config: ConfigFile = None,
    sets: Sets = None,
) -> None:
    """Start a sidecar, run the command after --, stop it; its exit code is the command's.

    The command finds the sidecar in INFERSCALE_BASE_URL. The port is a free one.
    """
    from inferscale_sidecar.cli.start import run_with_sidecar

    if not command:
        raise ConfigError("no command to run; write it after --, e.g. run -- python agent.py")
    settings = load_settings(config, sets, engine__model=model, server__port=0)
    raise typer.Exit(run_with_sidecar(settings, Output(), command))


@app.command()
def status(
    url: Url = None,
    api_key: ApiKey = None,
    config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Ask a running sidecar how it is."""
    from inferscale_sidecar.cli.remote import show_status

    raise typer.Exit(
        show_status(load_settings(config, None), url, api_key, Output(as_json=as_json))
    )


@app.command()
def doctor(
    url: Url = None,
    api_key: ApiKey = None,
    strict: Annotated[bool, typer.Option("--strict", help="A warning fails, too.")] = False,
    quality: Annotated[
        bool,
        typer.Option("--quality", help="Compare injected memory with its text on this model, too."),
    ] = False,
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Check what is installed, what the engine can do, and what would be declined and why."""
    from inferscale_sidecar.cli.doctor import examine

    output = Output(as_json=as_json)
    code = examine(
        lambda: load_settings(config, sets), url, api_key, output, strict=strict, quality=quality
    )
    raise typer.Exit(code)


@app.command()
def version(as_json: Json = False) -> None:
    """Versions of InferScale, Python and vLLM."""
    from inferscale_sidecar.cli.versions import versions

    found = versions()
    text = "\n".join(f"{name:<12} {value or 'not installed'}" for name, value in found.items())
    Output(as_json=as_json).data(found, text)


@tenants.command("create")
def tenants_create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Make a tenant: nothing of it is shared with the others. Then make a key for it."""
    from inferscale_sidecar.cli.keys import create_tenant

    raise typer.Exit(create_tenant(load_settings(config, sets), Output(as_json=as_json), name))


@tenants.command("list")
def tenants_list(config: ConfigFile = None, sets: Sets = None, as_json: Json = False) -> None:
    """List the tenants."""
    from inferscale_sidecar.cli.keys import list_tenants

    raise typer.Exit(list_tenants(load_settings(config, sets), Output(as_json=as_json)))


@tenants.command("limits")
def tenants_limits(
    name: Annotated[str, typer.Argument(help="Name of the tenant.")] = "default",
    sets: Annotated[
        list[str] | None,
        typer.Option("--limit", help="E.g. memories=10000; 0 is no limit.", metavar="NAME=NUMBER"),
    ] = None,
    resets: Annotated[
        list[str] | None,
        typer.Option("--default", help="Back to what the settings say.", metavar="NAME"),
    ] = None,
    config: ConfigFile = None,
    settings: Sets = None,
    as_json: Json = False,
) -> None:
    """Show and change what a tenant may use; a running sidecar follows within a second.

    The names are those of the settings under `limits`.
    """
    from inferscale_sidecar.cli.limits import show_limits

    output = Output(as_json=as_json)
    changes = (sets or (), resets or ())
    raise typer.Exit(show_limits(load_settings(config, settings), output, name, *changes))


@keys.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    tenant: TenantName = "default",
    scope: Annotated[
        list[str] | None, typer.Option(help="read, write or admin; read and write by default.")
    ] = None,
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is shown once, only its digest is kept."""
    from inferscale_sidecar.cli.keys import create_key

    settings = load_settings(config, sets)
    raise typer.Exit(
        create_key(settings, Output(as_json=as_json), tenant, name, scope or ["read", "write"])
    )


@keys.command("list")
def keys_list(
    tenant: TenantName = "default",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """List a tenant's keys, revoked ones too."""
    from inferscale_sidecar.cli.keys import list_keys

    raise typer.Exit(list_keys(load_settings(config, sets), Output(as_json=as_json), tenant))


@keys.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `keys list` shows it.")],
    tenant: TenantName = "default",
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Revoke a key, at once and for good."""
    from inferscale_sidecar.cli.keys import revoke_key

    raise typer.Exit(
        revoke_key(load_settings(config, sets), Output(as_json=as_json), tenant, key_id)
    )


def run(argv: list[str]) -> int:
    """Parse and run; the exit code. Knows every expected exception, lets the others through."""
    ours = argv[: argv.index("--")] if "--" in argv else argv
    output = Output(as_json="--json" in ours)
    try:
        code = app(argv, prog_name="inferscale-sidecar", standalone_mode=False)
    except SidecarError as error:
        return output.error(error)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("stopped\n")
        return INTERRUPTED
    except Exception as error:
        # Typer's usage errors have no public base class; they all carry these two.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        hint = "see `inferscale-sidecar --help`"
        return output.problem("usage", f"{error.format_message().rstrip('.')}; {hint}", USAGE)
    return code if isinstance(code, int) else OK
