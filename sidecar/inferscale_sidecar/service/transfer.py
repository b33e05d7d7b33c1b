"""Export and import: a tenant's memories, or a scope's, as they are, out of here and into here.

Invariants: both take constant memory, whatever the number of memories; an import of anything that
is not valid writes nothing; the same import again changes nothing; what is here stays as it is.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Scope, Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import ConfigError, InvalidInput
from inferscale_sidecar.service.transfer_file import Entry, Source
from inferscale_sidecar.service.transfer_lines import memory_line, write_line
from inferscale_sidecar.store.records import Vector
from inferscale_sidecar.store.transfer_port import Link, MovedMemory, Outcome, TransferPort

BATCH = 500
MAX_SHOWN = 10
"""So many bad lines are named in an error."""

_COUNTED = {
    "new": "memories",
    "unchanged": "unchanged",
    "differing": "differing",
    "duplicate": "duplicates",
    "deleted": "deleted",
}


@dataclass(frozen=True)
class ImportOptions:
    """How to import.

    Args:
        restore: also what was deleted here.
        keep_ids: True to keep ids, False to make new ones; None to keep them if the memories come
            from this very tenant. Ids of other tenants of the database are never taken.
        skip_invalid: leave bad lines out instead of refusing all.
        dry_run: only say what would be done.
    """

    restore: bool = False
    keep_ids: bool | None = None
    skip_invalid: bool = False
    dry_run: bool = False


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
            async for batch in snapshot.memories(with_vectors=with_vectors):
                end.memories += len(batch)
                yield b"".join(write_line(memory_line(each)) for each in batch)
            async for links in snapshot.links():
                end.links += len(links)
                yield b"".join(write_line(_link_line(link)) for link in links)
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
        work = _Import(self._store, self._embedder, tenant, source, options, comparable)
        done = 0
        entries = (entry for entry in source if not isinstance(entry.what, InvalidInput))
        while batch := await asyncio.to_thread(_take, entries):
            await work.put(batch)
            if not options.dry_run:
                self._on_write()
            done += len(batch)
            on_progress(done)
        return work.report.model_copy(update={"invalid": bad.number, "dry_run": options.dry_run})


class _Import:
    """One import on its way."""

    def __init__(
        self,
        store: TransferPort,
        embedder: Embedder | None,
        tenant: Tenant,
        source: Source,
        options: ImportOptions,
        comparable: bool,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._tenant = tenant
        self._options = options
        self._comparable = comparable
        keep = options.keep_ids
        self._keeps = source.tenant_id == tenant.id if keep is None else keep
        self._space = uuid.uuid5(uuid.NAMESPACE_OID, tenant.salt.hex())
        self._renamed: dict[str, str] = {}
        self.report = wire.ImportResponse()

    async def put(self, batch: Sequence[Entry]) -> None:
        """Store a batch of memories, of links, or of both."""
        memories = [self._named(e.what) for e in batch if isinstance(e.what, MovedMemory)]
        if memories:
            await self._put_memories(memories)
        links = [self._pointed(e.what) for e in batch if isinstance(e.what, Link)]
        if links and not self._options.dry_run:
            self._count("links", await self._store.import_links(self._tenant.id, links))

    async def _put_memories(self, memories: Sequence[MovedMemory]) -> None:
        planned = await self._import(memories, dry_run=True)
        new = [m for m, o in zip(memories, planned, strict=True) if o.fate == "new"]
        others = [(m, o) for m, o in zip(memories, planned, strict=True) if o.fate != "new"]
        if self._options.dry_run:
            outcomes: Sequence[Outcome] = [o for o in planned if o.fate == "new"]
        else:
            new = await self._embedded(new)
            outcomes = await self._import(new, dry_run=False) if new else []
        for memory, outcome in [*others, *zip(new, outcomes, strict=True)]:
            self._count(_COUNTED[outcome.fate])
            if outcome.memory_id != memory.memory.id:
                self._renamed[memory.memory.id] = outcome.memory_id

    async def _import(self, memories: Sequence[MovedMemory], *, dry_run: bool) -> list[Outcome]:
        return await self._store.import_memories(
            self._tenant.id,
            memories,
            alias=self._alias,
            restore=self._options.restore,
            dry_run=dry_run,
        )

    async def _embedded(self, memories: Sequence[MovedMemory]) -> list[MovedMemory]:
        bare = [m for m in memories if m.vector is None]
        if not bare:
            return list(memories)
        if self._embedder is None:
            raise ConfigError("memories without vectors need an embedder to be imported")
        vectors = await self._embedder.embed([m.memory.text for m in bare])
        made = iter(vectors)
        return [m if m.vector is not None else replace(m, vector=next(made)) for m in memories]

    def _named(self, moved: MovedMemory) -> MovedMemory:
        """With the id that it shall have, and without a vector that is not comparable."""
        if moved.vector is not None and not self._is_ours(moved.vector):
            moved = replace(moved, vector=None)
        memory = replace(moved.memory, id=self._id(moved.memory.id))
        return replace(moved, memory=memory)

    def _is_ours(self, vector: Vector) -> bool:
        return self._comparable and (self._embedder is None or len(vector) == self._embedder.dim)

    def _pointed(self, link: Link) -> Link:
        ids = [self._id(i) for i in (link.memory_id, link.target_id)]
        memory_id, target_id = (self._renamed.get(i, i) for i in ids)
        return Link(link.kind, memory_id, target_id)

    def _id(self, memory_id: str) -> str:
        return memory_id if self._keeps else self._alias(memory_id)

    def _alias(self, memory_id: str) -> str:
        """An id of the tenant's own for a foreign one, the same each time."""
        return str(uuid.uuid5(self._space, memory_id))

    def _count(self, name: str, number: int = 1) -> None:
        setattr(self.report, name, getattr(self.report, name) + number)


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
    return list(islice(entries, BATCH))


def _link_line(link: Link) -> Any:
    return wire.LinkLine(kind=link.kind, memory_id=link.memory_id, target_id=link.target_id)
