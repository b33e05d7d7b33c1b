"""The commands `tenants` and `keys`: their flags. What they do is in `keys` and `limits`."""

from typing import Annotated

import typer

from inferscale_sidecar.cli.flags import ConfigFile, Json, Sets, TenantName, load_settings
from inferscale_sidecar.cli.output import Output

keys = typer.Typer(help="API keys, straight in the database.", no_args_is_help=True)
tenants = typer.Typer(help="Tenants, straight in the database.", no_args_is_help=True)


def add_tenant_commands(app: typer.Typer) -> None:
    """Give the command line both groups."""
    app.add_typer(keys, name="keys")
    app.add_typer(tenants, name="tenants")


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
