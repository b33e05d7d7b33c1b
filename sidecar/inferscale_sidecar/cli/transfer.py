"""`export` and `import`: memories out of the database and into it; the sidecar need not run."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any, BinaryIO

from inferscale.protocol.transfer import ImportResponse
from inferscale_sidecar.cli.output import OK, Output
from inferscale_sidecar.config import Config
from inferscale_sidecar.core import Scope, Tenant
from inferscale_sidecar.errors import ConfigError, InvalidInput, NotFound
from inferscale_sidecar.lifecycle.serve import open_embedder, open_store
from inferscale_sidecar.service.message import need_scope
from inferscale_sidecar.service.transfer import TransferService
from inferscale_sidecar.service.transfer_file import ExportFile, Source
from inferscale_sidecar.service.transfer_import import ImportOptions
from inferscale_sidecar.store import MemoryStore

STANDARD = "-"
_CHUNK_BYTES = 2**20


def export_memories(
    config: Config,
    output: Output,
    tenant: str,
    scope: Scope | None,
    target: str,
    *,
    with_vectors: bool,
) -> int:
    """Write an export to a file, whole or not at all, or to stdout."""
    if scope is not None:
        need_scope(scope)

    async def work() -> int:
        size_bytes = 0
        async with open_store(config) as store:
            found = await _find_tenant(store, tenant)
            with _sink(target) as file:
                async for lines in TransferService(store).export(
                    found, scope, with_vectors=with_vectors
                ):
                    size_bytes += file.write(lines)
        return size_bytes

    size_bytes = asyncio.run(work())
    if target == STANDARD:
        output.note(f"exported {size_bytes} bytes")
    else:
        output.data({"file": target, "bytes": size_bytes}, f"exported to {target}")
    return OK


def import_memories(
    config: Config, output: Output, tenant: str, source: Source, options: ImportOptions
) -> int:
    """Store what a source holds, and print what became of it."""

    async def work() -> ImportResponse:
        with output.stage("import") as detail:
            async with _importer(config, tenant, options) as (service, found):
                return await service.import_from(
                    found, source, options, on_progress=lambda done: detail(f"{done} done")
                )

    report = asyncio.run(work())
    output.data(report.model_dump(), _describe(report))
    return OK


@dataclass(frozen=True)
class Origin:
    """Where to import from, as the command line names it."""

    name: str
    place: str
    history: Path | None = None
    collection: str | None = None


@contextmanager
def opened(origin: Origin) -> Iterator[Source]:
    """What is to be imported, open while the block runs.

    Raises:
        ConfigError: it cannot be read. InvalidInput: it is no export.
    """
    if origin.name == "mem0":
        yield _mem0(origin)
        return
    if origin.name != "inferscale":
        raise InvalidInput(f"--from {origin.name!r} is not known; it can be inferscale or mem0")
    if origin.history or origin.collection:
        raise InvalidInput("--history and --collection are Mem0's; name it with --from mem0")
    with _export(origin.place) as source:
        yield source


def _mem0(origin: Origin) -> Source:
    from inferscale_sidecar.foreign.mem0_history import Mem0History
    from inferscale_sidecar.foreign.points import open_points
    from inferscale_sidecar.service.mem0_source import Mem0Source

    history = Mem0History(origin.history) if origin.history else None
    return Mem0Source(open_points(origin.place, origin.collection or "mem0"), history)


@contextmanager
def _export(name: str) -> Iterator[ExportFile]:
    """An export by the name of its file; `-` for stdin, which is kept in a file meanwhile."""
    with ExitStack() as stack:
        if name == STANDARD:
            file: BinaryIO = stack.enter_context(TemporaryFile())
            while chunk := sys.stdin.buffer.read(_CHUNK_BYTES):
                file.write(chunk)
        else:
            try:
                file = stack.enter_context(Path(name).open("rb"))
            except OSError as error:
                raise ConfigError(
                    f"cannot read {name}: {error.strerror}; name an export"
                ) from error
        yield ExportFile(file)


@contextmanager
def _sink(target: str) -> Iterator[BinaryIO]:
    if target == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target).absolute()
    try:
        # Made by this module for the owner alone: it holds everything that a tenant ever said.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            try:
                yield file  # type: ignore[misc]  # a wrapper that behaves like the file it wraps
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise ConfigError(
            f"cannot write {target}: {error.strerror}; choose another file"
        ) from error


@asynccontextmanager
async def _importer(
    config: Config, tenant: str, options: ImportOptions
) -> AsyncIterator[tuple[TransferService, Tenant]]:
    async with open_store(config) as store:
        found = await _find_tenant(store, tenant)
        if options.dry_run:
            yield TransferService(store), found
            return
        async with open_embedder(config, store) as embedder:
            yield TransferService(store, embedder), found


async def _find_tenant(store: MemoryStore, name: str) -> Tenant:
    for tenant in await store.list_tenants():
        if name in (tenant.name, tenant.id):
            return tenant
    raise NotFound(
        f"no tenant {name!r}; `tenants list` shows them, `tenants create {name}` makes it"
    )


def _describe(report: ImportResponse) -> str:
    counts: dict[str, Any] = report.model_dump(exclude={"memories", "dry_run"})
    others = [f"{number} {name}" for name, number in counts.items() if number]
    verb = "would import" if report.dry_run else "imported"
    return f"{verb} {report.memories} memories" + (f" ({', '.join(others)})" if others else "")
