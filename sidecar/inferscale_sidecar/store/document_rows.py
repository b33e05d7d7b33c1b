"""Rows of documents and their vectors: in the caller's transaction.

Namespaces are text in which a period follows each label: no label holds one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Row, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store import quota
from inferscale_sidecar.store.document_port import Document, DocumentDraft, Owner, Path
from inferscale_sidecar.store.document_schema import document_vectors, documents
from inferscale_sidecar.store.records import Vector
from inferscale_sidecar.store.rows import batched


def path_digest(owner: Owner, path: Path) -> str:
    """SHA-256 (hex) of user, namespace and key, told apart from any others of the tenant."""
    namespace, key = path
    text = json.dumps([owner.user_id, _join(namespace), key])
    return hashlib.sha256(text.encode()).hexdigest()


async def put_vectors(
    conn: AsyncConnection, owner: Owner, drafts: Mapping[str, DocumentDraft]
) -> None:
    """Replace the vectors of documents that are stored; by the digests of their paths."""
    nums: dict[int, str] = {}
    for digests in batched(list(drafts)):
        query = select(documents.c.num, documents.c.path_hash).where(owned(owner))
        found = await conn.execute(query.where(documents.c.path_hash.in_(digests)))
        nums |= {row.num: row.path_hash for row in found}
    for some in batched(list(nums)):
        its = document_vectors.c.document_num.in_(some)
        await conn.execute(delete(document_vectors).where(its))
    rows = [
        {"document_num": num, "position": at, "vector": np.asarray(v, "<f4").tobytes()}
        for num, digest in nums.items()
        for at, v in enumerate(drafts[digest].vectors)
    ]
    if rows:
        await conn.execute(insert(document_vectors), rows)


async def read_vectors(conn: AsyncConnection, nums: Sequence[int]) -> dict[int, list[Vector]]:
    """Their vectors, in order, by the numbers of documents."""
    found: dict[int, list[Vector]] = {}
    for some in batched(nums):
        query = select(document_vectors).where(document_vectors.c.document_num.in_(some))
        query = query.order_by(document_vectors.c.document_num, document_vectors.c.position)
        for row in await conn.execute(query):
            found.setdefault(row.document_num, []).append(np.frombuffer(row.vector, "<f4"))
    return found


async def remove(conn: AsyncConnection, condition: ColumnElement[bool]) -> int:
    """Remove the documents for which `condition` holds, their tenants being locked; how many."""
    await quota.discount(conn, "documents", condition)
    return (await conn.execute(delete(documents).where(condition))).rowcount


async def sweep(conn: AsyncConnection, tenant_id: str, now: datetime) -> int:
    """Remove what has expired of a tenant, which is locked; how many there were."""
    its = documents.c.tenant_id == tenant_id
    return await remove(conn, its & (documents.c.expires_at <= now))


def owned(owner: Owner) -> ColumnElement[bool]:
    """Condition on `documents`: exactly this owner's."""
    user = documents.c.user_id
    mine = user.is_(None) if owner.user_id is None else user == owner.user_id
    return (documents.c.tenant_id == owner.tenant_id) & mine


def below(prefix: tuple[str, ...]) -> ColumnElement[bool]:
    """Condition on `documents`: in this namespace or in one below it."""
    # Not LIKE: SQLite's ignores letter case, and labels may hold its wildcards.
    text = _join(prefix)
    return func.substr(documents.c.namespace, 1, len(text)) == text


def _join(namespace: Iterable[str]) -> str:
    return "".join(f"{label}." for label in namespace)


def split(namespace: str) -> tuple[str, ...]:
    """The labels of a namespace."""
    return tuple(namespace.split(".")[:-1])


async def next_place(conn: AsyncConnection, tenant_id: str) -> int:
    """The `seq` of the next document; the tenant is locked."""
    newest = select(func.max(documents.c.seq)).where(documents.c.tenant_id == tenant_id)
    return (await conn.scalar(newest) or 0) + 1


def row_of(
    owner: Owner, path: Path, draft: DocumentDraft, seq: int, now: datetime
) -> dict[str, Any]:
    """The row of a document that is written now."""
    return {
        "tenant_id": owner.tenant_id,
        "user_id": owner.user_id,
        "path_hash": path_digest(owner, path),
        "namespace": _join(path[0]),
        "key": path[1],
        "value": json.dumps(dict(draft.value), allow_nan=False),
        "index_paths": None if draft.index is None else list(draft.index),
        "ttl_s": draft.ttl_s,
        "expires_at": draft.expires_at,
        "seq": seq,
        "created_at": now,
        "updated_at": now,
    }


def to_document(row: Row[Any], vectors: Sequence[Vector] = ()) -> Document:
    """From a row of `documents`."""
    return Document(
        num=row.num,
        seq=row.seq,
        namespace=split(row.namespace),
        key=row.key,
        value=json.loads(row.value),
        ttl_s=row.ttl_s,
        created_at=row.created_at,
        updated_at=row.updated_at,
        vectors=vectors,
    )
