"""Rows of messages and of the facts that come from them, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.store import expiry, memory_rows, removal, supersession
from inferscale_sidecar.store.records import Added, Draft, Extraction, FactDraft
from inferscale_sidecar.store.rows import (
    batched,
    is_there,
    scope_digest,
    select_memories,
    source_digest,
    text_digest,
    to_memory,
)
from inferscale_sidecar.store.schema import (
    extraction_turns,
    memories,
    memory_sources,
    memory_versions,
)


async def put_turns(
    conn: AsyncConnection,
    tenant_id: str,
    scope: Scope,
    turns: Sequence[Draft],
    *,
    metadata: dict[str, Any] | None,
    seq: int,
    now: datetime,
) -> list[str]:
    """Store messages that facts are to be extracted from; their ids, in order.

    A message that the scope holds already, in whatever form, is that one.
    """
    digests = [text_digest(turn.text) for turn in turns]
    kept = {source_digest(turn.text): text_digest(turn.text) for turn in turns}
    both = await memory_rows.known_texts(
        conn, tenant_id, scope, [*digests, *kept], None, seq=seq, now=now
    )
    known = {digest: memory for digest, memory in both.items() if digest not in kept}
    sources = {kept[digest]: memory for digest, memory in both.items() if digest in kept}
    found = sources | known
    await memory_rows.keep_longer(conn, found, turns, digests, seq=seq)
    ids = {digest: memory.id for digest, memory in found.items()}
    again = [m.id for m in known.values() if m.kind == "turn" and m.status == "live"]
    for some in batched(again):
        change = update(memories).where(memories.c.id.in_(some))
        await conn.execute(change.values(status="pending"))
    rows = memory_rows.new_rows(
        tenant_id, scope, turns, digests, ids, metadata=metadata, seq=seq, now=now
    )
    for row in rows.values():
        row |= {"kind": "turn", "status": "pending"}
    await memory_rows.insert_rows(conn, rows.values(), dict(zip(digests, turns, strict=True)))
    ids |= {digest: row["id"] for digest, row in rows.items()}
    return [ids[digest] for digest in digests]


async def keep_as_sources(
    conn: AsyncConnection, turns: Sequence[Memory | None], *, seq: int, now: datetime
) -> None:
    """Their facts are stored now: the messages are kept, but no longer found."""
    for turn in {turn.id: turn for turn in turns if turn}.values():
        if turn.kind != "turn" or turn.status == "source":
            continue
        await removal.drop_own_kv(conn, turn.id, now)
        digest = source_digest(turn.text)
        twin = select(memories.c.id).where(
            memories.c.tenant_id == turn.tenant_id,
            memories.c.scope_key == scope_digest(turn.scope),
            memories.c.text_hash == digest,
        )
        if await conn.scalar(twin) is not None:  # the text was changed to that of another source
            digest = source_digest(turn.id)
        await conn.execute(
            update(memories)
            .where(memories.c.id == turn.id)
            .values(status="source", text_hash=digest, seq=seq)
        )
        event = {
            "memory_id": turn.id,
            "version": turn.version,
            "event": "EXTRACT",
            "tenant_id": turn.tenant_id,
            "seq": seq,
            "created_at": now,
        }
        await conn.execute(insert(memory_versions).values(event))


async def put_facts(
    conn: AsyncConnection,
    job: Extraction,
    facts: Sequence[FactDraft],
    *,
    seq: int,
    now: datetime,
    fingerprint: str | None,
) -> list[Added]:
    """Store the facts whose messages still exist, linked to them."""
    facts = [fact for fact in facts if any(job.turns[at] for at in fact.sources)]
    wanted = {t.memory_id for f in facts for t in (f.same_as, *f.supersedes) if t}
    found = await supersession.find_targets(
        conn, job.tenant_id, job.scope, wanted, fingerprint, now=now
    )
    same = [supersession.current(fact.same_as, found) for fact in facts]
    fresh = [fact.draft for fact, old in zip(facts, same, strict=True) if old is None]
    digests = [text_digest(draft.text) for draft in fresh]
    own = {turn.id for turn in job.turns if turn}
    known = await memory_rows.known_texts(
        conn, job.tenant_id, job.scope, digests, fingerprint, seq=seq, now=now, keep=own
    )
    known |= await memory_rows.keep_longer(conn, known, fresh, digests, seq=seq)
    again = [(m, f.draft.expires_at) for m, f in zip(same, facts, strict=True) if m]
    longer = await expiry.extend(conn, again, seq=seq)
    rows = memory_rows.new_rows(
        job.tenant_id, job.scope, fresh, digests, known, metadata=job.metadata, seq=seq, now=now
    )
    for row in rows.values():
        row["kind"] = "fact"
    await memory_rows.insert_rows(conn, rows.values(), dict(zip(digests, fresh, strict=True)))
    written = iter(memory_rows.results_of(digests, known, rows))
    results = [Added(longer[old.id], "NOOP") if old else next(written) for old in same]
    replaced = await supersession.apply(conn, zip(facts, results, strict=True), found, seq, now)
    sources = [[t.id for at in fact.sources if (t := job.turns[at])] for fact in facts]
    links = {(r.memory.id, i) for r, ids in zip(results, sources, strict=True) for i in ids}
    await _link(conn, {pair for pair in links if pair[0] != pair[1]})
    return [
        replace(added, status="extracted", sources=tuple(ids), supersedes=tuple(old))
        for added, ids, old in zip(results, sources, replaced, strict=True)
    ]


async def _link(conn: AsyncConnection, links: set[tuple[str, str]]) -> None:
    known: set[tuple[str, str]] = set()
    for some in batched(sorted({memory_id for memory_id, _ in links})):
        query = select(memory_sources).where(memory_sources.c.memory_id.in_(some))
        known |= {(row.memory_id, row.source_id) for row in await conn.execute(query)}
    rows = [{"memory_id": m, "source_id": s} for m, s in sorted(links - known)]
    if rows:
        await conn.execute(insert(memory_sources), rows)


async def facts_of(
    conn: AsyncConnection, tenant_id: str, extraction_id: str, fingerprint: str | None, at: Moment
) -> list[Added]:
    """The facts linked to an extraction's messages, oldest first."""
    turns = select(extraction_turns.c.memory_id).where(
        extraction_turns.c.extraction_id == extraction_id
    )
    links: dict[str, list[str]] = {}
    query = select(memory_sources).where(memory_sources.c.source_id.in_(turns))
    for row in await conn.execute(query.order_by(memory_sources.c.source_id)):
        links.setdefault(row.memory_id, []).append(row.source_id)
    found: list[Added] = []
    for some in batched(sorted(links)):
        those = select_memories(fingerprint).where(
            memories.c.tenant_id == tenant_id, memories.c.id.in_(some), is_there(at)
        )
        for row in await conn.execute(those.order_by(memories.c.num)):
            sources = tuple(links[row.id])
            found.append(Added(to_memory(row), "NOOP", "extracted", sources=sources))
    return found
