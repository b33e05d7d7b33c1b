"""Flags that several commands have, and the settings that they add up to."""

from pathlib import Path
from typing import Annotated, Any

import typer

from inferscale_sidecar.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file with settings.", metavar="FILE")
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any setting, e.g. --set inject.window_items=20.", metavar="KEY=VALUE"
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="Model for vLLM; the demo model on a machine without a GPU."),
]
EngineUrl = Annotated[
    str | None, typer.Option("--engine-url", help="Attach to this vLLM instead of starting one.")
]
Host = Annotated[str | None, typer.Option(help="Address to bind.")]
# Text, so that the loader checks it and names the value.
Port = Annotated[
    str | None, typer.Option(help="Port to bind; 0 takes a free one.", metavar="NUMBER")
]
Url = Annotated[
    str | None, typer.Option(help="The running sidecar; by default as the settings say.")
]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", envvar="INFERSCALE_API_KEY", help="API key.")
]
TenantName = Annotated[str, typer.Option("--tenant", help="Name of the tenant.")]
Words = Annotated[list[str] | None, typer.Argument(metavar="[-- ARGUMENT…]")]


def load_settings(config: Path | None, sets: list[str] | None, **flags: Any) -> Any:
    """Settings from all sources; `flags` are spelled with `__` for the dot."""
    from inferscale_sidecar.config import load

    given = {name.replace("__", "."): value for name, value in flags.items()}
    for item in sets or ():
        key, found, value = item.partition("=")
        if not found:
            raise ConfigError(
                f"--set {item!r} is not KEY=VALUE; for example --set inject.window_items=20"
            )
        given[key] = value
    return load(given, file=config)
