"""The commands `export` and `import`: their flags. What they do is in `transfer`."""

from pathlib import Path
from typing import Annotated

import typer

from inferscale_sidecar.cli.flags import ConfigFile, Json, Sets, TenantName, load_settings
from inferscale_sidecar.cli.output import Output


def add_transfer_commands(app: typer.Typer) -> None:
    """Give the command line both commands."""
    app.command("export")(export_command)
    app.command("import")(import_command)


def export_command(
    tenant: TenantName = "default",
    user: Annotated[str | None, typer.Option(help="Only what is kept of this user.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's memories.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only this run's.")] = None,
    app_id: Annotated[str | None, typer.Option("--app", help="Only this app's.")] = None,
    target: Annotated[
        str, typer.Option("-o", "--output", help="Where to; - for stdout.", metavar="FILE")
    ] = "-",
    with_vectors: Annotated[
        bool, typer.Option("--with-vectors", help="Embeddings too: larger, faster to import.")
    ] = False,
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Write all that a tenant keeps as JSON lines; the sidecar may run or not."""
    from inferscale_sidecar.cli.transfer import export_memories
    from inferscale_sidecar.core import Scope

    scope = Scope(user, agent, run_id, app_id)
    output = Output(as_json=as_json)
    settings = load_settings(config, sets)
    raise typer.Exit(
        export_memories(
            settings,
            output,
            tenant,
            scope if scope.given else None,
            target,
            with_vectors=with_vectors,
        )
    )


def import_command(
    file: Annotated[
        str, typer.Argument(help="An export; - for stdin. With --from, the other's vector store.")
    ],
    origin: Annotated[
        str, typer.Option("--from", help="Whose memories: inferscale or mem0.", metavar="NAME")
    ] = "inferscale",
    history: Annotated[
        Path | None, typer.Option(help="Mem0's history database.", metavar="FILE")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Mem0's collection; mem0 by default.", metavar="NAME")
    ] = None,
    tenant: TenantName = "default",
    restore: Annotated[
        bool, typer.Option("--restore", help="Also what was deleted here since.")
    ] = False,
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Keep ids also in another tenant.")
    ] = False,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave bad lines out, import the rest.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing, say what would be done.")
    ] = False,
    config: ConfigFile = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Store what an export holds and is not here yet; doing it again changes nothing.

    With --from mem0, FILE is a local Qdrant folder, a FAISS folder, or the URL of a Qdrant server
    or of a PostgreSQL database with pgvector.
    """
    from inferscale_sidecar.cli.transfer import Origin, import_memories, opened
    from inferscale_sidecar.service.transfer_import import ImportOptions

    options = ImportOptions(
        restore=restore,
        keep_ids=keep_ids or None,
        skip_invalid=skip_invalid,
        dry_run=dry_run,
    )
    settings, output = load_settings(config, sets), Output(as_json=as_json)
    with opened(Origin(origin, file, history, collection)) as source:
        raise typer.Exit(import_memories(settings, output, tenant, source, options))
