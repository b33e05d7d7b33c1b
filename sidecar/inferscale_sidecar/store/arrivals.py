"""Writing memories that come from elsewhere, with their ids, times and histories.

Owns what happens when they meet what is here: what is here stays as it is.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Moment
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import arrival_checks, arrival_links, block_arrivals, expiry, quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import (
    batched,
    is_there,
    next_seq,
    scope_digest,
    source_digest,
    superseded_digest,
    text_digest,
    vector_blob,
)
from inferscale_sidecar.store.schema import embeddings, memories, memory_versions
from inferscale_sidecar.store.transfer_port import Fate, Link, MovedBlock, MovedMemory, Outcome


class SqlArrivals:
    """The writing half of `TransferPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def import_memories(
        self,
        tenant_id: str,
        incoming: Sequence[MovedMemory],
        *,
        alias: Callable[[str], str],
        restore: bool = False,
        dry_run: bool = False,
    ) -> list[Outcome]:
        how = (tenant_id, incoming, alias, restore, self._clock())
        if dry_run:
            async with self._db.read() as conn:
                return (await _judge(conn, *how)).outcomes
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            found = await _judge(conn, *how)
            await _make_way(conn, tenant_id, found.rows, seq, how[-1])
            async with self._room(conn, tenant_id, found.rows):
                await _insert(conn, found.rows, found.arrived, seq)
        return found.outcomes

    @asynccontextmanager
    async def _room(
        self, conn: AsyncConnection, tenant_id: str, rows: Sequence[dict[str, Any]]
    ) -> AsyncIterator[None]:
        limits = await quota.limits_of(conn, tenant_id, self._limits)
        users = {row["user_id"] for row in rows} if limits.memories_per_user else {None}
        texts = [row["text"] for row in rows]
        async with AsyncExitStack() as stack:
            for user in users:
                room = quota.room(conn, tenant_id, user, self._limits, texts=texts)
                await stack.enter_async_context(room)
            yield

    async def import_blocks(
        self,
        tenant_id: str,
        incoming: Sequence[MovedBlock],
        *,
        alias: Callable[[str], str],
        restore: bool = False,
        dry_run: bool = False,
    ) -> list[Outcome]:
        how = (tenant_id, incoming, alias, restore)
        if dry_run:
            async with self._db.read() as conn:
                return await block_arrivals.judge(conn, *how)
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            outcomes = await block_arrivals.judge(conn, *how)
            pairs = zip(outcomes, incoming, strict=True)
            new = [(o.memory_id, each) for o, each in pairs if o.fate == "new"]
            async with quota.room(conn, tenant_id, None, self._limits):
                await block_arrivals.insert_new(conn, tenant_id, new)
        return outcomes

    async def import_links(self, tenant_id: str, links: Sequence[Link]) -> int:
        number = 0
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            for some in batched(links):
                ids = {i for link in some for i in (link.memory_id, link.target_id)}
                there = await arrival_links.find(conn, tenant_id, ids)
                number += await arrival_links.put_sources(conn, some, there)
                number += await arrival_links.put_successors(conn, some, there, seq)
        return number


class _Judged:
    """Outcomes of all that came in, and the rows of what is new."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.rows: list[dict[str, Any]] = []
        self.arrived: list[MovedMemory] = []


async def _judge(
    conn: AsyncConnection,
    tenant_id: str,
    incoming: Sequence[MovedMemory],
    alias: Callable[[str], str],
    restore: bool,
    now: datetime,
) -> _Judged:
    """What has expired, there or here, counts as deleted."""
    ids = [each.memory.id for each in incoming]
    foreign = await arrival_checks.foreign_ids(conn, tenant_id, ids)
    ids = [alias(each) if each in foreign else each for each in ids]
    rows = [_row(tenant_id, i, each.memory) for i, each in zip(ids, incoming, strict=True)]
    known, gone = await arrival_checks.known_rows(conn, tenant_id, ids, now)
    texts = await arrival_checks.places(conn, tenant_id, rows, is_there(Moment(now)))
    judged = _Judged()
    for row, each in zip(rows, incoming, strict=True):
        if row["status"] == "source" and (row["scope_key"], row["text_hash"]) in texts:
            row["text_hash"] = source_digest(row["id"])  # as when a message's text was changed
        place = (row["scope_key"], row["text_hash"])
        fate: Fate = "new"
        if row["id"] in known:
            fate = "unchanged" if _is_same(known[row["id"]], row) else "differing"
        elif each.memory.has_expired(now) or (row["id"] in gone and not restore):
            fate = "deleted"
        elif place in texts:
            fate = "duplicate"
        judged.outcomes.append(Outcome(fate, texts[place] if fate == "duplicate" else row["id"]))
        if fate == "new":
            known[row["id"]] = row
            texts[place] = row["id"]
            judged.rows.append(row)
            judged.arrived.append(each)
    return judged


async def _make_way(
    conn: AsyncConnection, tenant_id: str, rows: Sequence[dict[str, Any]], seq: int, now: datetime
) -> None:
    """Remove what has expired and would stand in the way of these rows, by its text or its id."""
    expired = memories.c.expires_at <= now
    ids = set((await arrival_checks.places(conn, tenant_id, rows, expired)).values())
    ids |= {row["id"] for row in rows}
    await expiry.remove_expired(conn, tenant_id, sorted(ids), seq=seq, now=now)


def _row(tenant_id: str, memory_id: str, memory: Memory) -> dict[str, Any]:
    digest = {"source": source_digest(memory.text), "superseded": superseded_digest(memory_id)}
    scope = memory.scope
    return {
        "id": memory_id,
        "tenant_id": tenant_id,
        **scope.ids,
        "owner": scope.owner,
        "kind": memory.kind,
        "status": memory.status,
        "scope_key": scope_digest(scope),
        "text": memory.text,
        "text_hash": digest.get(memory.status) or text_digest(memory.text),
        "version": memory.version,
        "role": memory.role,
        "actor_id": memory.actor_id,
        "said_at": memory.said_at,
        "expires_at": memory.expires_at,
        "metadata": memory.metadata,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
    }


def _is_same(here: dict[str, Any], there: dict[str, Any]) -> bool:
    return all(here[name] == there[name] for name in ("scope_key", "text", "version", "metadata"))


async def _insert(
    conn: AsyncConnection,
    rows: Sequence[dict[str, Any]],
    arrived: Sequence[MovedMemory],
    seq: int,
) -> None:
    if not rows:
        return
    ids = [row["id"] for row in rows]
    for some in batched(ids):  # what was deleted and comes back has but one history
        await conn.execute(delete(memory_versions).where(memory_versions.c.memory_id.in_(some)))
    await conn.execute(insert(memories), [row | {"seq": seq} for row in rows])
    vectors = [
        {"memory_id": i, "vector": _blob(each)} for i, each in zip(ids, arrived, strict=True)
    ]
    await conn.execute(insert(embeddings), vectors)
    versions = [
        {
            "memory_id": row["id"],
            "tenant_id": row["tenant_id"],
            "version": past.version,
            "event": past.event,
            "text": past.text,
            "created_at": past.created_at,
            "seq": seq,
        }
        for row, each in zip(rows, arrived, strict=True)
        for past in each.versions
    ]
    await conn.execute(insert(memory_versions), versions)
    texts = [row["text"] for row in rows]
    await quota.count_texts(conn, rows[0]["tenant_id"], "memories", texts)


def _blob(each: MovedMemory) -> bytes:
    if each.vector is None:
        raise ValueError(f"memory {each.memory.id} comes without a vector")
    return vector_blob(each.vector)
