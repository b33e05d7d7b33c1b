"""Documents that go out or come in as they are: known by owner, namespace and key.

As with memories, what is here stays as it is.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Scope
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.document_rows import (
    next_place,
    path_digest,
    put_vectors,
    read_vectors,
    row_of,
    split,
    sweep,
    to_document,
)
from inferscale_sidecar.store.document_schema import documents
from inferscale_sidecar.store.rows import batched, next_seq
from inferscale_sidecar.store.transfer_port import Fate, MovedDocument

BATCH = 50
"""Documents are larger than memories: up to 1 MiB each."""


async def read_out(
    conn: AsyncConnection,
    tenant_id: str,
    scope: Scope | None,
    now: datetime,
    *,
    with_vectors: bool,
) -> AsyncIterator[list[MovedDocument]]:
    """A tenant's documents, or a user's, in the order in which they were written, in batches.

    A scope of more than a user, or of none, has no documents.
    """
    if scope is not None and scope != Scope(scope.user_id):
        return
    its = documents.c.tenant_id == tenant_id
    if scope is not None:
        its &= documents.c.user_id == scope.user_id
    its &= or_(documents.c.expires_at.is_(None), documents.c.expires_at > now)
    place = tuple_(documents.c.seq, documents.c.num)
    query = select(documents).where(its).order_by(documents.c.seq, documents.c.num).limit(BATCH)
    page = query
    while rows := (await conn.execute(page)).all():
        vectors = await read_vectors(conn, [row.num for row in rows]) if with_vectors else {}
        yield [_moved(row, vectors.get(row.num, ())) for row in rows]
        page = query.where(place > (rows[-1].seq, rows[-1].num))


class SqlDocumentArrivals:
    """The part of `TransferPort` that writes documents."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def import_documents(
        self, tenant_id: str, incoming: Sequence[MovedDocument], *, dry_run: bool = False
    ) -> list[Fate]:
        now = self._clock()
        if dry_run:
            async with self._db.read() as conn:
                return (await _judge(conn, tenant_id, incoming, now))[0]
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            await sweep(conn, tenant_id, now)
            fates, new = await _judge(conn, tenant_id, incoming, now)
            async with quota.room(conn, tenant_id, None, self._limits):
                await _insert(conn, tenant_id, new, now)
        return fates


async def _judge(
    conn: AsyncConnection, tenant_id: str, incoming: Sequence[MovedDocument], now: datetime
) -> tuple[list[Fate], list[MovedDocument]]:
    """What would become of each, and those that are new."""
    digests = [path_digest(Owner(tenant_id, each.user_id), each.path) for each in incoming]
    known = await _values(conn, tenant_id, digests, now)
    fates: list[Fate] = []
    new: list[MovedDocument] = []
    for digest, each in zip(digests, incoming, strict=True):
        end = each.draft.expires_at
        fate: Fate = "new"
        if digest in known:
            fate = "unchanged" if known[digest] == each.draft.value else "differing"
        elif end is not None and end <= now:
            fate = "deleted"
        else:
            known[digest] = dict(each.draft.value)
            new.append(each)
        fates.append(fate)
    return fates, new


async def _values(
    conn: AsyncConnection, tenant_id: str, digests: Sequence[str], now: datetime
) -> dict[str, dict[str, Any]]:
    """What the tenant's documents at these places hold, unless they have expired."""
    known: dict[str, dict[str, Any]] = {}
    there = or_(documents.c.expires_at.is_(None), documents.c.expires_at > now)
    for some in batched(sorted(set(digests))):
        query = select(documents).where(
            documents.c.tenant_id == tenant_id, documents.c.path_hash.in_(some), there
        )
        for row in await conn.execute(query):
            known[row.path_hash] = to_document(row).value
    return known


async def _insert(
    conn: AsyncConnection, tenant_id: str, new: Sequence[MovedDocument], now: datetime
) -> None:
    first = await next_place(conn, tenant_id)
    rows: list[dict[str, Any]] = []
    drafts: dict[Owner, dict[str, DocumentDraft]] = {}
    for seq, each in enumerate(new, first):
        owner = Owner(tenant_id, each.user_id)
        row = row_of(owner, each.path, each.draft, seq, now)
        rows.append(row | {"created_at": each.created_at, "updated_at": each.updated_at})
        drafts.setdefault(owner, {})[row["path_hash"]] = each.draft
    if rows:
        await conn.execute(insert(documents), rows)
        values = [row["value"] for row in rows]
        await quota.count_texts(conn, tenant_id, "documents", values)
    for owner, its in drafts.items():
        await put_vectors(conn, owner, its)


def _moved(row: Any, vectors: Sequence[Any]) -> MovedDocument:
    value = to_document(row).value
    draft = DocumentDraft(value, vectors, row.ttl_s, row.expires_at, row.index_paths)
    path = (split(row.namespace), row.key)
    return MovedDocument(row.user_id, path, draft, row.created_at, row.updated_at)
