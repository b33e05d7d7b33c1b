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
    Url,
    Words,
    load_settings,
)
from inferscale_sidecar.cli.mcp_command import add_mcp_command
from inferscale_sidecar.cli.output import INTERRUPTED, OK, USAGE, Output
from inferscale_sidecar.cli.tenant_commands import add_tenant_commands
from inferscale_sidecar.cli.transfer_commands import add_transfer_commands
from inferscale_sidecar.errors import ConfigError, SidecarError

app = typer.Typer(
    name="inferscale-sidecar",
    help="Long-term memory beside vLLM: the memory is injected as KV, not read again.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

add_tenant_commands(app)
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
