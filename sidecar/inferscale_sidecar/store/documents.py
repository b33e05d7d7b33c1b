"""Documents in SQL. Namespaces are text in which a period follows each label: no label holds one.

Invariant: an expired row is not seen from its moment on; a write removes it from the disk, or
`sweep_documents` does.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Row,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_port import Document, DocumentDraft, Owner, Path
from inferscale_sidecar.store.document_schema import document_vectors, documents
from inferscale_sidecar.store.records import Vector
from inferscale_sidecar.store.rows import batched, insert_or, lock_tenants

SCAN_ROWS = 500
_REPLACED = ("value", "ttl_s", "expires_at", "seq", "updated_at")


class SqlDocuments:
    """Implements `DocumentPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def get_documents(self, owner: Owner, paths: Sequence[Path]) -> dict[Path, Document]:
        hashes = sorted({path_digest(owner, path) for path in paths})
        found: dict[Path, Document] = {}
        async with self._db.read() as conn:
            for some in batched(hashes):
                query = self._visible(owner).where(documents.c.path_hash.in_(some))
                for document in map(_to_document, await conn.execute(query)):
                    found[document.namespace, document.key] = document
        return found

    async def scan_documents(
        self, owner: Owner, prefix: tuple[str, ...], *, with_vectors: bool = False
    ) -> AsyncGenerator[Document, None]:
        place = tuple_(documents.c.seq, documents.c.num)
        query = self._visible(owner).where(_below(prefix))
        query = query.order_by(documents.c.seq.desc(), documents.c.num.desc()).limit(SCAN_ROWS)
        page = query
        async with self._db.read() as conn:
            while True:
                rows = (await conn.execute(page)).all()
                vectors = await _vectors(conn, [row.num for row in rows]) if with_vectors else {}
                for row in rows:
                    yield _to_document(row, vectors.get(row.num, ()))
                if len(rows) < SCAN_ROWS:
                    return
                page = query.where(place < (rows[-1].seq, rows[-1].num))

    async def document_namespaces(self, owner: Owner) -> list[tuple[str, ...]]:
        query = self._visible(owner).with_only_columns(documents.c.namespace).distinct()
        async with self._db.read() as conn:
            found = (await conn.scalars(query)).all()
        return sorted(map(_split, found))

    async def write_documents(
        self, owner: Owner, writes: Mapping[Path, DocumentDraft | None]
    ) -> None:
        now = self._clock()
        gone = [path_digest(owner, path) for path, draft in writes.items() if draft is None]
        drafts = {path: draft for path, draft in writes.items() if draft is not None}
        async with self._db.write() as conn:
            await lock_tenants(conn, [owner.tenant_id])
            await _sweep(conn, now)
            for some in batched(gone):
                its = documents.c.path_hash.in_(some)
                await conn.execute(delete(documents).where(_owned(owner), its))
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
            await _sweep(conn, self._clock())
            done = await conn.execute(delete(documents).where(_owned(owner), _below(prefix)))
        return done.rowcount

    async def sweep_documents(self) -> int:
        now = self._clock()
        async with self._db.read() as conn:
            due = documents.c.expires_at <= now
            if await conn.scalar(select(documents.c.num).where(due).limit(1)) is None:
                return 0
        async with self._db.write() as conn:
            return await _sweep(conn, now)

    def _visible(self, owner: Owner) -> Any:
        """Select this owner's documents that have not expired."""
        until = documents.c.expires_at
        return select(documents).where(_owned(owner), or_(until.is_(None), until > self._clock()))


def path_digest(owner: Owner, path: Path) -> str:
    """SHA-256 (hex) of user, namespace and key, told apart from any others of the tenant."""
    namespace, key = path
    text = json.dumps([owner.user_id, _join(namespace), key])
    return hashlib.sha256(text.encode()).hexdigest()


async def _put(
    conn: AsyncConnection, owner: Owner, drafts: Mapping[Path, DocumentDraft], now: datetime
) -> None:
    newest = select(func.max(documents.c.seq)).where(documents.c.tenant_id == owner.tenant_id)
    first = (await conn.scalar(newest) or 0) + 1
    rows = [
        _row(owner, path, draft, seq, now)
        for seq, (path, draft) in enumerate(drafts.items(), first)
    ]
    upsert = insert_or(conn, documents)
    upsert = upsert.on_conflict_do_update(
        index_elements=["tenant_id", "path_hash"],
        set_={name: upsert.excluded[name] for name in _REPLACED},
    )
    try:
        await conn.execute(upsert, rows)
    except IntegrityError as error:
        raise NotFound(f"no tenant {owner.tenant_id!r} to keep documents for") from error
    nums: dict[str, int] = {}
    for some in batched([row["path_hash"] for row in rows]):
        query = select(documents.c.path_hash, documents.c.num).where(_owned(owner))
        found = await conn.execute(query.where(documents.c.path_hash.in_(some)))
        nums |= {row.path_hash: row.num for row in found}
    await _put_vectors(
        conn,
        {nums[row["path_hash"]]: d.vectors for row, d in zip(rows, drafts.values(), strict=True)},
    )


async def _put_vectors(conn: AsyncConnection, vectors: Mapping[int, Sequence[Vector]]) -> None:
    for some in batched(list(vectors)):
        its = document_vectors.c.document_num.in_(some)
        await conn.execute(delete(document_vectors).where(its))
    rows = [
        {"document_num": num, "position": at, "vector": np.asarray(v, "<f4").tobytes()}
        for num, its_vectors in vectors.items()
        for at, v in enumerate(its_vectors)
    ]
    if rows:
        await conn.execute(insert(document_vectors), rows)


async def _vectors(conn: AsyncConnection, nums: Sequence[int]) -> dict[int, list[Vector]]:
    found: dict[int, list[Vector]] = {}
    for some in batched(nums):
        query = select(document_vectors).where(document_vectors.c.document_num.in_(some))
        query = query.order_by(document_vectors.c.document_num, document_vectors.c.position)
        for row in await conn.execute(query):
            found.setdefault(row.document_num, []).append(np.frombuffer(row.vector, "<f4"))
    return found


async def _sweep(conn: AsyncConnection, now: datetime) -> int:
    return (await conn.execute(delete(documents).where(documents.c.expires_at <= now))).rowcount


def _owned(owner: Owner) -> ColumnElement[bool]:
    user = documents.c.user_id
    mine = user.is_(None) if owner.user_id is None else user == owner.user_id
    return (documents.c.tenant_id == owner.tenant_id) & mine


def _below(prefix: tuple[str, ...]) -> ColumnElement[bool]:
    # Not LIKE: SQLite's ignores letter case, and labels may hold its wildcards.
    text = _join(prefix)
    return func.substr(documents.c.namespace, 1, len(text)) == text


def _join(namespace: Iterable[str]) -> str:
    return "".join(f"{label}." for label in namespace)


def _split(namespace: str) -> tuple[str, ...]:
    return tuple(namespace.split(".")[:-1])


def _row(owner: Owner, path: Path, draft: DocumentDraft, seq: int, now: datetime) -> dict[str, Any]:
    return {
        "tenant_id": owner.tenant_id,
        "user_id": owner.user_id,
        "path_hash": path_digest(owner, path),
        "namespace": _join(path[0]),
        "key": path[1],
        "value": json.dumps(dict(draft.value), allow_nan=False),
        "ttl_s": draft.ttl_s,
        "expires_at": draft.expires_at,
        "seq": seq,
        "created_at": now,
        "updated_at": now,
    }


def _to_document(row: Row[Any], vectors: Sequence[Vector] = ()) -> Document:
    return Document(
        num=row.num,
        seq=row.seq,
        namespace=_split(row.namespace),
        key=row.key,
        value=json.loads(row.value),
        ttl_s=row.ttl_s,
        created_at=row.created_at,
        updated_at=row.updated_at,
        vectors=vectors,
    )
