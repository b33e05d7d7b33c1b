"""One import on its way: which ids things get here, their vectors, and the counts.

Owns nothing of the checks before it (`transfer_file`), nor what becomes of each (the store).
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.service.transfer_file import Entry, Source
from inferscale_sidecar.store.records import Vector
from inferscale_sidecar.store.transfer_port import (
    Link,
    MovedBlock,
    MovedMemory,
    Outcome,
    TransferPort,
)

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
            self._count("blocks" if outcome.fate == "new" else _COUNTED[outcome.fate])

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
