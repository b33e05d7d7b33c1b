"""Pinned blocks that go out or come in as they are, in the caller's transaction.

As with memories, what is here stays as it is; a label that a scope has already is not given twice.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Block, Scope
from inferscale_sidecar.store import block_rows, quota
from inferscale_sidecar.store.block_port import BlockEvent
from inferscale_sidecar.store.block_tables import block_scopes, block_versions, blocks
from inferscale_sidecar.store.rows import BATCH, batched, scope_digest
from inferscale_sidecar.store.transfer_port import Fate, MovedBlock, Outcome

_ORDER = {"ADD": 0, "UPDATE": 1}


async def read_out(
    conn: AsyncConnection, tenant_id: str, scope: Scope | None
) -> AsyncIterator[list[MovedBlock]]:
    """A tenant's blocks, or those attached to a scope, with their histories, in batches."""
    condition = blocks.c.tenant_id == tenant_id
    if scope is not None:
        its = select(block_scopes.c.block_id).where(block_rows.attached_to(tenant_id, scope))
        condition &= blocks.c.id.in_(its)
    last = 0
    while True:
        rows = await block_rows.read_blocks(conn, condition & (blocks.c.num > last), limit=BATCH)
        if not rows:
            return
        past = await _versions(conn, [row.id for row in rows])
        found = await block_rows.to_blocks(conn, rows)
        yield [MovedBlock(_seen_from(scope, each), tuple(past[each.id])) for each in found]
        last = rows[-1].num


def _seen_from(scope: Scope | None, block: Block) -> Block:
    """Without what it is attached to outside of the scope."""
    if scope is None:
        return block
    kept = tuple(each for each in block.scopes if scope.covers(each))
    return Block(**{**vars(block), "scopes": kept})


async def _versions(conn: AsyncConnection, ids: Sequence[str]) -> dict[str, list[BlockEvent]]:
    query = select(block_versions).where(
        block_versions.c.block_id.in_(ids), block_versions.c.event.in_(list(_ORDER))
    )
    found: dict[str, list[BlockEvent]] = {each: [] for each in ids}
    for row in await conn.execute(query):
        texts = (row.label, row.value, row.description)
        event = BlockEvent(row.block_id, row.version, row.event, *texts, row.created_at)
        found[row.block_id].append(event)
    for events in found.values():
        events.sort(key=lambda event: (event.version, _ORDER[event.event]))
    return found


async def judge(
    conn: AsyncConnection,
    tenant_id: str,
    incoming: Sequence[MovedBlock],
    alias: Callable[[str], str],
    restore: bool,
) -> list[Outcome]:
    """What would become of each of them, in order."""
    known, gone, foreign = await _there(conn, tenant_id, [each.block.id for each in incoming])
    taken = await _labels(conn, tenant_id, incoming)
    outcomes = []
    for each in incoming:
        block, block_id = each.block, each.block.id
        if block_id in foreign:
            block_id = alias(block_id)
            more, lost, _ = await _there(conn, tenant_id, [block_id])
            known, gone = known | more, gone | lost
        places = [(scope_digest(scope), block.label) for scope in block.scopes]
        other = next((taken[place] for place in places if place in taken), None)
        fate: Fate = "new"
        if block_id in known:
            fate = "unchanged" if known[block_id] == _shown(block) else "differing"
        elif block_id in gone and not restore:
            fate = "deleted"
        elif other is not None:
            fate, block_id = "duplicate", other
        outcomes.append(Outcome(fate, block_id))
        if fate == "new":
            known[block_id] = _shown(block)
            taken |= {place: block_id for place in places}
    return outcomes


async def insert_new(
    conn: AsyncConnection, tenant_id: str, incoming: Sequence[tuple[str, MovedBlock]]
) -> None:
    """Store blocks under the given ids, with their histories."""
    values = [moved.block.value for _, moved in incoming]
    await quota.count_texts(conn, tenant_id, "blocks", values)
    for block_id, moved in incoming:
        block = moved.block
        row = {"id": block_id, "tenant_id": tenant_id, "created_at": block.created_at}
        await conn.execute(delete(block_versions).where(block_versions.c.block_id == block_id))
        await conn.execute(insert(blocks), row | block_rows.columns_of(block))
        versions = [
            vars(event) | {"block_id": block_id, "tenant_id": tenant_id} for event in moved.versions
        ]
        await conn.execute(insert(block_versions), versions)
        for scope in block.scopes:
            await block_rows.attach(conn, tenant_id, block_id, block.label, scope)


def _shown(block: Block) -> tuple[Any, ...]:
    return block.label, block.value, block.description, block.version


async def _there(
    conn: AsyncConnection, tenant_id: str, ids: Sequence[str]
) -> tuple[dict[str, tuple[Any, ...]], set[str], set[str]]:
    """The tenant's blocks with these ids, those it has deleted, and those of other tenants."""
    known: dict[str, tuple[Any, ...]] = {}
    gone: set[str] = set()
    foreign: set[str] = set()
    for some in batched(ids):
        past = select(block_versions.c.block_id, block_versions.c.tenant_id, block_versions.c.event)
        for row in await conn.execute(past.where(block_versions.c.block_id.in_(some))):
            if row.tenant_id != tenant_id:
                foreign.add(row.block_id)
            elif row.event == "DELETE":
                gone.add(row.block_id)
        query = select(blocks).where(blocks.c.tenant_id == tenant_id, blocks.c.id.in_(some))
        for row in await conn.execute(query):
            known[row.id] = (row.label, row.value, row.description, row.version)
    return known, gone - known.keys(), foreign


async def _labels(
    conn: AsyncConnection, tenant_id: str, incoming: Sequence[MovedBlock]
) -> dict[tuple[str, str], str]:
    """Which block has which label in the scopes that these blocks are attached to."""
    keys = sorted({scope_digest(scope) for each in incoming for scope in each.block.scopes})
    found: dict[tuple[str, str], str] = {}
    for some in batched(keys):
        query = select(block_scopes).where(
            block_scopes.c.tenant_id == tenant_id, block_scopes.c.scope_key.in_(some)
        )
        for row in await conn.execute(query):
            found[row.scope_key, row.label] = row.block_id
    return found
