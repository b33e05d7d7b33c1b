"""Documents in SQL.

Invariant: an expired row is not seen from its moment on; a write removes it from the disk, or
`sweep_documents` does.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_port import Document, DocumentDraft, Owner, Path
from inferscale_sidecar.store.document_rows import (
    below,
    next_place,
    owned,
    path_digest,
    put_vectors,
    read_vectors,
    remove,
    row_of,
    split,
    sweep,
    to_document,
)
from inferscale_sidecar.store.document_schema import documents
from inferscale_sidecar.store.rows import batched, insert_or, lock_tenants

SCAN_ROWS = 500
_REPLACED = ("value", "index_paths", "ttl_s", "expires_at", "seq", "updated_at")


class SqlDocuments:
    """Implements `DocumentPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def get_documents(self, owner: Owner, paths: Sequence[Path]) -> dict[Path, Document]:
        hashes = sorted({path_digest(owner, path) for path in paths})
        found: dict[Path, Document] = {}
        async with self._db.read() as conn:
            for some in batched(hashes):
                query = self._visible(owner).where(documents.c.path_hash.in_(some))
                for document in map(to_document, await conn.execute(query)):
                    found[document.namespace, document.key] = document
        return found

    async def scan_documents(
        self, owner: Owner, prefix: tuple[str, ...], *, with_vectors: bool = False
    ) -> AsyncGenerator[Document, None]:
        place = tuple_(documents.c.seq, documents.c.num)
        query = self._visible(owner).where(below(prefix))
        query = query.order_by(documents.c.seq.desc(), documents.c.num.desc()).limit(SCAN_ROWS)
        page = query
        async with self._db.read() as conn:
            while True:
                rows = (await conn.execute(page)).all()
                nums = [row.num for row in rows] if with_vectors else []
                vectors = await read_vectors(conn, nums)
                for row in rows:
                    yield to_document(row, vectors.get(row.num, ()))
                if len(rows) < SCAN_ROWS:
                    return
                page = query.where(place < (rows[-1].seq, rows[-1].num))

    async def document_namespaces(self, owner: Owner) -> list[tuple[str, ...]]:
        query = self._visible(owner).with_only_columns(documents.c.namespace).distinct()
        async with self._db.read() as conn:
            found = (await conn.scalars(query)).all()
        return sorted(map(split, found))

    async def write_documents(
        self, owner: Owner, writes: Mapping[Path, DocumentDraft | None]
    ) -> None:
        now = self._clock()
        gone = [path_digest(owner, path) for path, draft in writes.items() if draft is None]
        drafts = {path: draft for path, draft in writes.items() if draft is not None}
        async with self._db.write() as conn:
            await lock_tenants(conn, [owner.tenant_id])
            await sweep(conn, owner.tenant_id, now)
            async with quota.room(conn, owner.tenant_id, None, self._limits):
                for some in batched(gone):
                    await remove(conn, owned(owner) & documents.c.path_hash.in_(some))
                if drafts:
                    await _put(conn, owner, drafts, now)

    async def extend_documents(self, found: Sequence[Document], now: datetime) -> None:
        rows = [
            {"its_num": d.num, "its_seq": d.seq, "until": now + timedelta(seconds=d.ttl_s)}
            for d in found
            if d.ttl_s is not None
        ]
        if not rows:
            return
        query = (
            update(documents)
            .where(documents.c.num == bindparam("its_num"))
            .where(documents.c.seq == bindparam("its_seq"), documents.c.expires_at > now)
            .values(expires_at=bindparam("until"))
        )
        # Not forced to disk: after a power cut a document lives a little shorter, no more.
        async with self._db.write(is_truth=False) as conn:
            await conn.execute(query, rows)

    async def delete_documents(self, owner: Owner, prefix: tuple[str, ...]) -> int:
        async with self._db.write() as conn:
            await lock_tenants(conn, [owner.tenant_id])
            await sweep(conn, owner.tenant_id, self._clock())
            return await remove(conn, owned(owner) & below(prefix))

    async def sweep_documents(self) -> int:
        now = self._clock()
        async with self._db.read() as conn:
            due = select(documents.c.tenant_id).where(documents.c.expires_at <= now).distinct()
            whose = (await conn.scalars(due)).all()
        number = 0
        for tenant_id in whose:
            async with self._db.write() as conn:
                await lock_tenants(conn, [tenant_id])
                number += await sweep(conn, tenant_id, now)
        return number

    def _visible(self, owner: Owner) -> Any:
        """Select this owner's documents that have not expired."""
        until = documents.c.expires_at
        return select(documents).where(owned(owner), or_(until.is_(None), until > self._clock()))


async def _put(
    conn: AsyncConnection, owner: Owner, drafts: Mapping[Path, DocumentDraft], now: datetime
) -> None:
    first = await next_place(conn, owner.tenant_id)
    rows = [
        row_of(owner, path, draft, seq, now)
        for seq, (path, draft) in enumerate(drafts.items(), first)
    ]
    digests = [row["path_hash"] for row in rows]
    for some in batched(digests):  # what is replaced makes room
        its = owned(owner) & documents.c.path_hash.in_(some)
        await quota.discount(conn, "documents", its)
    values = [row["value"] for row in rows]
    await quota.count_texts(conn, owner.tenant_id, "documents", values)
    upsert = insert_or(conn, documents)
    upsert = upsert.on_conflict_do_update(
        index_elements=["tenant_id", "path_hash"],
        set_={name: upsert.excluded[name] for name in _REPLACED},
    )
    try:
        await conn.execute(upsert, rows)
    except IntegrityError as error:
        raise NotFound(f"no tenant {owner.tenant_id!r} to keep documents for") from error
    await put_vectors(conn, owner, dict(zip(digests, drafts.values(), strict=True)))
