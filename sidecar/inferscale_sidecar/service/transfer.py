"""Export and import: all that a tenant keeps, or a scope, as it is, out of here and into here.

Invariants: both take constant memory, whatever there is; an import of anything that
is not valid writes nothing; the same import again changes nothing; what is here stays as it is.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Scope, Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.transfer_blocks import block_line
from inferscale_sidecar.service.transfer_documents import document_line
from inferscale_sidecar.service.transfer_file import Entry, Source
from inferscale_sidecar.service.transfer_import import Import, ImportOptions
from inferscale_sidecar.service.transfer_lines import memory_line, write_line
from inferscale_sidecar.service.transfer_threads import message_line, thread_line
from inferscale_sidecar.store.transfer_port import (
    Link,
    MovedDocument,
    MovedMessage,
    Snapshot,
    TransferPort,
)

BATCH = 500
DOCUMENT_WEIGHT = 10
"""A document may be so many times as large as anything else."""
MAX_SHOWN = 10
"""So many bad lines are named in an error."""


class TransferService:
    """Export and import.

    Args:
        store: the truth.
        embedder: makes the vectors that come in without; None if nothing is to be imported.
        on_write: called after each committed write. Must not block.
    """

    def __init__(
        self,
        store: TransferPort,
        embedder: Embedder | None = None,
        *,
        on_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._on_write = on_write

    async def export(
        self, tenant: Tenant, scope: Scope | None = None, *, with_vectors: bool = False
    ) -> AsyncIterator[bytes]:
        """The lines of an export, some at a time.

        Args:
            scope: None for the whole tenant.
            with_vectors: embeddings too, which saves the time to make them again.
        """
        embedder = await self._store.bound_embedder() if with_vectors else None
        yield write_line(wire.Header(tenant=tenant.id, embedder=embedder))
        end = wire.End(memories=0, links=0)
        async with self._store.snapshot(tenant.id, scope) as snapshot:
            async for lines in _lines(snapshot, end, with_vectors=with_vectors):
                yield b"".join(map(write_line, lines))
        yield write_line(end)

    async def import_from(
        self,
        tenant: Tenant,
        source: Source,
        options: ImportOptions,
        *,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> wire.ImportResponse:
        """Store what is new here.

        Args:
            on_progress: told how many entries are done.

        Raises:
            InvalidInput: some of it cannot be stored; then nothing is, unless told otherwise.
        """
        bad = await asyncio.to_thread(_find_bad, source)
        if bad.number and not options.skip_invalid:
            raise InvalidInput(bad.describe())
        comparable = source.embedder is not None and source.embedder == (
            await self._store.bound_embedder()
        )
        work = Import(self._store, self._embedder, tenant, source, options, comparable)
        done = 0
        entries = (entry for entry in source if not isinstance(entry.what, InvalidInput))
        while batch := await asyncio.to_thread(_take, entries):
            await work.put(batch)
            if not options.dry_run:
                self._on_write()
            done += len(batch)
            on_progress(done)
        return work.report.model_copy(update={"invalid": bad.number, "dry_run": options.dry_run})


@dataclass
class _Bad:
    number: int = 0
    first: list[str] = field(default_factory=list)

    def describe(self) -> str:
        more = self.number - len(self.first)
        shown = [*self.first, *([f"and {more} more"] if more else [])]
        return (
            f"nothing was imported, for {self.number} of the entries cannot be: "
            f"{' | '.join(shown)}; correct them, or leave them out with skip_invalid"
        )


def _find_bad(source: Iterable[Entry]) -> _Bad:
    bad = _Bad()
    for place, what in source:
        if isinstance(what, InvalidInput):
            bad.number += 1
            if len(bad.first) < MAX_SHOWN:
                bad.first.append(f"{place}: {what.message}")
    return bad


def _take(entries: Iterator[Entry]) -> list[Entry]:
    """As many as are held in memory and written at once."""
    taken: list[Entry] = []
    weight = 0
    while weight < BATCH and (entry := next(entries, None)) is not None:
        taken.append(entry)
        weight += DOCUMENT_WEIGHT if isinstance(entry.what, MovedDocument) else 1
    return taken


async def _lines(
    snapshot: Snapshot, end: wire.End, *, with_vectors: bool
) -> AsyncIterator[Sequence[wire.Content]]:
    """All that a snapshot holds, some at a time; what has been is counted in `end`."""
    async for memories in snapshot.memories(with_vectors=with_vectors):
        end.memories += len(memories)
        yield [memory_line(each) for each in memories]
    async for links in snapshot.links():
        end.links += len(links)
        yield [_link_line(link) for link in links]
    async for blocks in snapshot.blocks():
        end.blocks += len(blocks)
        yield [block_line(each) for each in blocks]
    async for several in snapshot.threads():
        messages = [message_line(each) for each in several if isinstance(each, MovedMessage)]
        threads = [thread_line(each) for each in several if not isinstance(each, MovedMessage)]
        end.threads, end.messages = end.threads + len(threads), end.messages + len(messages)
        yield [*threads, *messages]
    async for documents in snapshot.documents(with_vectors=with_vectors):
        end.documents += len(documents)
        yield [document_line(each) for each in documents]


def _link_line(link: Link) -> wire.LinkLine:
    return wire.LinkLine(kind=link.kind, memory_id=link.memory_id, target_id=link.target_id)
