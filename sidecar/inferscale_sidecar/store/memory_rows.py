"""Rows of new memories, and whether their texts are new: in the caller's transaction."""

import uuid
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Select, bindparam, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.store import expiry, quota
from inferscale_sidecar.store.records import Added, Draft
from inferscale_sidecar.store.rows import (
    batched,
    scope_digest,
    select_memories,
    to_memory,
    vector_blob,
    version_row,
)
from inferscale_sidecar.store.schema import embeddings, memories, memory_versions

_INSERTS = tuple(insert(table) for table in (memories, embeddings, memory_versions))


async def known_texts(
    conn: AsyncConnection,
    tenant_id: str,
    scope: Scope,
    digests: Sequence[str],
    fingerprint: str | None,
    *,
    seq: int,
    now: datetime,
    keep: Collection[str] = (),
) -> dict[str, Memory]:
    """The memories of exactly this scope under these digests, by digest.

    Expired ones are removed, with the messages that they come from unless those are in `keep`.
    """
    found: dict[str, Memory] = {}
    for some in batched(list(dict.fromkeys(digests))):
        its = {"tenant": tenant_id, "scope": scope_digest(scope), "digests": some}
        if fingerprint is not None:
            its["fingerprint"] = fingerprint
        rows = await conn.execute(_under_digests(fingerprint is not None), its)
        found |= {row.text_hash: to_memory(row) for row in rows}
    return await expiry.drop_expired(conn, found, seq=seq, now=now, keep=keep)


@cache
def _under_digests(has_engine: bool) -> Select[Any]:
    """Memories of a `tenant` and `scope` under some `digests`, for a `fingerprint` if any."""
    fingerprint: BindParameter[str] | None = bindparam("fingerprint") if has_engine else None
    return select_memories(fingerprint).where(
        memories.c.tenant_id == bindparam("tenant"),
        memories.c.scope_key == bindparam("scope"),
        memories.c.text_hash.in_(bindparam("digests", expanding=True)),
    )


async def keep_longer(
    conn: AsyncConnection,
    known: dict[str, Memory],
    drafts: Sequence[Draft],
    digests: Sequence[str],
    *,
    seq: int,
) -> dict[str, Memory]:
    """What is known, by digest, living on as long as what is added again: never shorter."""
    pairs = [
        (known[d], draft.expires_at) for draft, d in zip(drafts, digests, strict=True) if d in known
    ]
    extended = await expiry.extend(conn, pairs, seq=seq)
    return {digest: extended.get(memory.id, memory) for digest, memory in known.items()}


def new_rows(
    tenant_id: str,
    scope: Scope,
    drafts: Sequence[Draft],
    digests: Sequence[str],
    known: Container[str],
    *,
    metadata: dict[str, Any] | None,
    seq: int,
    now: datetime,
) -> dict[str, dict[str, Any]]:
    """Rows for the texts that are new, each once, in the order of the drafts."""
    common = {
        "tenant_id": tenant_id,
        **scope.ids,
        "owner": scope.owner,
        "scope_key": scope_digest(scope),
        "version": 1,
        "metadata": metadata,
        "seq": seq,
    }
    rows: dict[str, dict[str, Any]] = {}
    for draft, digest in zip(drafts, digests, strict=True):
        if digest in known or digest in rows:
            continue
        # A microsecond each: creation order is then also an order of times.
        created = now + timedelta(microseconds=len(rows))
        rows[digest] = common | {
            "id": str(uuid.uuid4()),
            "text": draft.text,
            "text_hash": digest,
            "role": draft.role,
            "actor_id": draft.actor_id,
            "said_at": draft.said_at,
            "expires_at": draft.expires_at,
            "created_at": created,
            "updated_at": created,
        }
    return rows


async def insert_rows(
    conn: AsyncConnection, rows: Iterable[dict[str, Any]], drafts: dict[str, Draft]
) -> None:
    """Insert rows of `new_rows` with embeddings and first versions; `drafts` by digest."""
    rows = list(rows)
    if not rows:
        return
    vectors = [
        {"memory_id": row["id"], "vector": vector_blob(drafts[row["text_hash"]].vector)}
        for row in rows
    ]
    versions = [version_row(row, "ADD", row["seq"], row["created_at"]) for row in rows]
    for statement, values in zip(_INSERTS, (rows, vectors, versions), strict=True):
        await conn.execute(statement, values)
    texts = [row["text"] for row in rows]
    await quota.count_texts(conn, rows[0]["tenant_id"], "memories", texts)


def results_of(
    digests: Sequence[str], known: dict[str, Memory], rows: dict[str, dict[str, Any]]
) -> list[Added]:
    """What became of each draft: new, or known already."""
    created = {digest: _memory_of(row) for digest, row in rows.items()}
    results, seen = [], set(known)
    for digest in digests:
        memory = known.get(digest) or created[digest]
        results.append(Added(memory, "NOOP" if digest in seen else "ADD"))
        seen.add(digest)
    return results


def _memory_of(row: dict[str, Any]) -> Memory:
    ids = {name: row[name] for name in SCOPE_IDS}
    same = {field.name: row[field.name] for field in fields(Memory) if field.name in row}
    return Memory(scope=Scope(**ids), **same)
