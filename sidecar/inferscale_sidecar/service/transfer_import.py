"""One import on its way: which ids things get here, their vectors, and the counts.

Owns nothing of the checks before it (`transfer_file`), nor what becomes of each (the store).
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Tenant, Thread
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.service.document_text import texts_at
from inferscale_sidecar.service.transfer_file import Entry, Source
from inferscale_sidecar.store.records import Vector
from inferscale_sidecar.store.transfer_port import (
    Fate,
    Link,
    MovedBlock,
    MovedDocument,
    MovedMemory,
    MovedMessage,
    Outcome,
    TransferPort,
)

_COUNTED: dict[Fate, str] = {
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


class Import:
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
        """Store a batch of whatever there is."""
        memories = [self._named(e.what) for e in batch if isinstance(e.what, MovedMemory)]
        if memories:
            await self._put_memories(memories)
        links = [self._pointed(e.what) for e in batch if isinstance(e.what, Link)]
        if links and not self._options.dry_run:
            self._count("links", await self._store.import_links(self._tenant.id, links))

        blocks = [e.what for e in batch if isinstance(e.what, MovedBlock)]
        if blocks:
            await self._put_blocks(blocks)
        await self._put_threads(batch)
        documents = [e.what for e in batch if isinstance(e.what, MovedDocument)]
        if documents:
            await self._put_documents(documents)

    async def _put_threads(self, batch: Sequence[Entry]) -> None:
        to, dry_run = self._tenant.id, self._options.dry_run
        threads = [e.what for e in batch if isinstance(e.what, Thread)]
        if threads:
            for fate in await self._store.import_threads(to, threads, dry_run=dry_run):
                self._note("threads", fate)
        said = [e.what for e in batch if isinstance(e.what, MovedMessage)]
        if said:
            named = [
                replace(m, message=replace(m.message, id=self._id(m.message.id))) for m in said
            ]
            for fate in await self._store.import_messages(
                to, named, alias=self._alias, dry_run=dry_run
            ):
                self._note("messages", fate)

    async def _put_documents(self, documents: Sequence[MovedDocument]) -> None:
        """Only what is new is embedded."""
        to = self._tenant.id
        planned = await self._store.import_documents(to, documents, dry_run=True)
        if self._options.dry_run:
            for fate in planned:
                self._note("documents", fate)
            return
        new = [d for d, fate in zip(documents, planned, strict=True) if fate == "new"]
        indexed = await self._indexed(new)
        stored = await self._store.import_documents(to, indexed) if new else []
        for fate in [*(fate for fate in planned if fate != "new"), *stored]:
            self._note("documents", fate)

    async def _put_blocks(self, blocks: Sequence[MovedBlock]) -> None:
        named = [replace(b, block=replace(b.block, id=self._id(b.block.id))) for b in blocks]
        outcomes = await self._store.import_blocks(
            self._tenant.id,
            named,
            alias=self._alias,
            restore=self._options.restore,
            dry_run=self._options.dry_run,
        )
        for outcome in outcomes:
            self._note("blocks", outcome.fate)

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
            self._note("memories", outcome.fate)
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

    async def _indexed(self, documents: Sequence[MovedDocument]) -> list[MovedDocument]:
        """With the vectors of what is at their paths."""
        ready = [
            d if all(map(self._is_ours, d.draft.vectors)) else _with_vectors(d, ())
            for d in documents
        ]
        texts = [
            [] if d.draft.vectors else texts_at(dict(d.draft.value), d.draft.index or ())
            for d in ready
        ]
        made = iter(await self._embed([text for its in texts for text in its]))
        return [
            _with_vectors(d, [next(made) for _ in its]) if its else d
            for d, its in zip(ready, texts, strict=True)
        ]

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if not texts:
            return ()
        if self._embedder is None:
            raise ConfigError("what comes without vectors needs an embedder to be imported")
        return list(await self._embedder.embed(texts))

    async def _embedded(self, memories: Sequence[MovedMemory]) -> list[MovedMemory]:
        made = iter(await self._embed([m.memory.text for m in memories if m.vector is None]))
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

    def _note(self, kind: str, fate: Fate) -> None:
        self._count(kind if fate == "new" else _COUNTED[fate])

    def _count(self, name: str, number: int = 1) -> None:
        setattr(self.report, name, getattr(self.report, name) + number)


def _with_vectors(moved: MovedDocument, vectors: Sequence[Vector]) -> MovedDocument:
    return replace(moved, draft=replace(moved.draft, vectors=vectors))
