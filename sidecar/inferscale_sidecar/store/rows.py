"""From table rows to nouns and back: shared by all parts of the SQL store. No transactions."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    case,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.store.records import MAX_FAILURES, SEARCHABLE, IndexRow, Vector
from inferscale_sidecar.store.schema import builds, embeddings, kv_items, memories, tenants

T = TypeVar("T")

# Below the limit on bound variables of every database, and of every SQLite build.
BATCH = 500

# What every addition runs is made once: making a statement takes longer than running it.
_BUMP = (
    update(tenants)
    .where(tenants.c.id == bindparam("tenant"))
    .values(change_seq=tenants.c.change_seq + 1)
    .returning(tenants.c.change_seq)
)


def batched(items: Sequence[T], size: int = BATCH) -> Iterator[Sequence[T]]:
    """Consecutive slices of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def text_digest(text: str) -> str:
    """SHA-256 (hex) by which exact duplicates are known."""
    return hashlib.sha256(text.encode()).hexdigest()


def source_digest(text: str) -> str:
    """What stands for a text's digest in a message that is only kept. No text contains NUL."""
    return text_digest(f"\x00source\x00{text}")


def superseded_digest(memory_id: str) -> str:
    """The same for a memory that is superseded: its text may become true again."""
    return text_digest(f"\x00superseded\x00{memory_id}")


def is_there(at: Moment) -> ColumnElement[bool]:
    """Condition on `memories`: it has not expired, or the expired are asked for too."""
    if at.show_expired:
        return true()
    return or_(memories.c.expires_at.is_(None), memories.c.expires_at > at.now)


def is_searchable(at: Moment) -> ColumnElement[bool]:
    """Condition on `memories`: it is listed and found."""
    return memories.c.status.in_(SEARCHABLE) & is_there(at)


def scope_digest(scope: Scope) -> str:
    """SHA-256 (hex) of all ids, told apart from any others."""
    return hashlib.sha256(json.dumps(scope.key).encode()).hexdigest()


def in_scope(tenant_id: str, scope: Scope) -> ColumnElement[bool]:
    """Condition on `memories`: this tenant, and every id that is given.

    Raises:
        ValueError: no id is given; an empty scope never means "everything".
    """
    return has_ids(memories, tenant_id, scope)


def has_ids(
    table: Table, tenant_id: str, scope: Scope, *, run_id: str = "run_id"
) -> ColumnElement[bool]:
    """The same condition on any table with these columns.

    Args:
        run_id: name of the column that holds a run.
    """
    names = {"run_id": run_id}
    given = [table.c[names.get(name, name)] == value for name, value in scope.given.items()]
    if not given:
        raise ValueError(f"a scope needs at least one of {', '.join(SCOPE_IDS)}")
    return and_(table.c.tenant_id == tenant_id, *given)


def in_list(tenant_id: str, scope: Scope) -> ColumnElement[bool]:
    """Condition on `memories`: this tenant and the first id given, as in `Scope.owner`."""
    kind, _, value = scope.owner.partition(":")
    return and_(memories.c.tenant_id == tenant_id, memories.c[f"{kind}_id"] == value)


def has_state(fingerprint: str | BindParameter[str] | None) -> ColumnElement[str]:
    """A memory's KV state as SQL, given the joins of `with_state`."""
    if fingerprint is None:
        return literal("queued")
    return case(
        (kv_items.c.id.is_not(None), "ready"),
        (builds.c.failures > MAX_FAILURES, "failed"),
        (builds.c.state == "building", "building"),
        else_="queued",
    )


def with_state(query: Select[Any], fingerprint: str | BindParameter[str] | None) -> Select[Any]:
    """Join each memory's KV and build rows of this engine fingerprint to a query on `memories`."""
    if fingerprint is None:
        return query.select_from(memories)
    joined = memories
    for table in (kv_items, builds):
        joined = joined.outerjoin(  # type: ignore[assignment]  # Join is a FromClause, Table too
            table,
            and_(
                table.c.memory_id == memories.c.id,
                table.c.version == memories.c.version,
                table.c.fingerprint == fingerprint,
            ),
        )
    return query.select_from(joined)


@lru_cache(maxsize=16)  # of the running engine; whoever adds conditions makes another
def select_memories(fingerprint: str | BindParameter[str] | None) -> Select[Any]:
    """All memories with their state; the caller adds the conditions."""
    columns = (*memories.c, has_state(fingerprint).label("kv_state"))
    return with_state(select(*columns), fingerprint)


def to_memory(row: Row[Any]) -> Memory:
    """From a row of `select_memories`."""
    return Memory(
        id=row.id,
        tenant_id=row.tenant_id,
        scope=Scope.of(row),
        text=row.text,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        role=row.role,
        actor_id=row.actor_id,
        metadata=row.metadata,
        kv_state=row.kv_state,
        status=row.status,
        kind=row.kind,
        said_at=row.said_at,
        superseded_by=row.superseded_by,
        expires_at=row.expires_at,
    )


def select_index_rows() -> Select[Any]:
    """All memories with their vectors; the caller adds the conditions."""
    return select(*memories.c, embeddings.c.vector).join_from(
        memories, embeddings, embeddings.c.memory_id == memories.c.id
    )


def to_index_row(row: Row[Any]) -> IndexRow:
    """From a row of `select_index_rows`."""
    return IndexRow(
        num=row.num,
        memory_id=row.id,
        version=row.version,
        scope=Scope.of(row),
        role=row.role,
        actor_id=row.actor_id,
        metadata=row.metadata,
        created_at=row.created_at,
        updated_at=row.updated_at,
        said_at=row.said_at,
        expires_at=row.expires_at,
        text=row.text,
        vector=to_vector(row.vector),
    )


def to_vector(blob: bytes) -> Vector:
    """What `vector_blob` made; read-only."""
    return np.frombuffer(blob, dtype="<f4")


def vector_blob(vector: Vector) -> bytes:
    """Float32, little endian, whatever the machine."""
    return vector.astype("<f4").tobytes()


def insert_or(conn: AsyncConnection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that can be told what to do on a conflict."""
    if conn.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


async def lock_tenants(conn: AsyncConnection, tenant_ids: Iterable[str]) -> None:
    """Wait for other writers of these tenants, and be alone with them until the commit.

    What the transaction reads afterwards is all that they have committed. Every write that depends
    on what it reads begins with this, or with `next_seq`. SQLite has one writer anyhow.
    """
    for some in batched(sorted(set(tenant_ids))):  # always in one order: no deadlocks
        query = select(tenants.c.id).where(tenants.c.id.in_(some)).order_by(tenants.c.id)
        await conn.execute(query.with_for_update(key_share=True))


async def next_seq(conn: AsyncConnection, tenant_id: str) -> int:
    """Number this write. Also locks the tenant's row: writes of one tenant commit in this order.

    Raises:
        NotFound: no such tenant.
    """
    seq: int | None = (await conn.execute(_BUMP, {"tenant": tenant_id})).scalar_one_or_none()
    if seq is None:
        raise NotFound(f"no tenant {tenant_id!r}; it was removed, or never created")
    return seq


def version_row(row: dict[str, Any], event: str, seq: int, now: datetime) -> dict[str, Any]:
    """A row of `memory_versions` for the state of a memory that `row` shows."""
    same = {name: row[name] for name in ("version", "tenant_id", "text")}
    return {"memory_id": row["id"], "event": event, "seq": seq, "created_at": now} | same
