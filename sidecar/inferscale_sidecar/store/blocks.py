"""Pinned blocks in SQL: each call is one transaction, writes of a tenant one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Block, Scope
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import block_rows, quota
from inferscale_sidecar.store.block_port import BlockDraft, BlockEvent, BlockPage
from inferscale_sidecar.store.block_removal import remove_blocks
from inferscale_sidecar.store.block_rows import attached_to, is_block, shown_in
from inferscale_sidecar.store.block_tables import (
    block_prefixes,
    block_scopes,
    block_versions,
    blocks,
)
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Removed
from inferscale_sidecar.store.rows import lock_tenants, next_seq, scope_digest
from inferscale_sidecar.store.schema import purges


class SqlBlocks:
    """Implements `BlockPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def create_block(self, tenant_id: str, draft: BlockDraft, scope: Scope | None) -> Block:
        now = self._clock()
        fields = {**vars(draft), "scopes": (), "created_at": now, "updated_at": now}
        block = Block(block_rows.new_id(), tenant_id, version=1, **fields)
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            row = {"id": block.id, "tenant_id": tenant_id, "created_at": now}
            async with quota.room(conn, tenant_id, None, self._limits):
                await conn.execute(insert(blocks), row | block_rows.columns_of(block))
                await quota.count_texts(conn, tenant_id, "blocks", [block.value])
            await block_rows.insert_version(conn, block, "ADD", now)
            if scope is not None:
                await block_rows.attach(conn, tenant_id, block.id, block.label, scope)
        return replace(block, scopes=() if scope is None else (scope,))

    async def get_block(self, tenant_id: str, block_id: str) -> Block | None:
        async with self._db.read() as conn:
            return await _find(conn, tenant_id, block_id)

    async def list_blocks(
        self,
        tenant_id: str,
        scope: Scope | None = None,
        *,
        label: str | None = None,
        limit: int,
        after: int | None = None,
    ) -> BlockPage:
        condition = blocks.c.tenant_id == tenant_id
        if scope is not None:
            its = select(block_scopes.c.block_id).where(attached_to(tenant_id, scope))
            condition &= blocks.c.id.in_(its)
        if label is not None:
            condition &= blocks.c.label == label
        rest = condition if after is None else condition & (blocks.c.num > after)
        async with self._db.read() as conn:
            total = await conn.scalar(select(func.count()).select_from(blocks).where(condition))
            rows = await block_rows.read_blocks(conn, rest, limit=limit + 1)
            found = await block_rows.to_blocks(conn, rows[:limit])
        return BlockPage(found, total or 0, rows[limit - 1].num if len(rows) > limit else None)

    async def pinned_blocks(
        self, tenant_id: str, scope: Scope, *, label: str | None = None
    ) -> list[Block]:
        here = shown_in(tenant_id, scope)
        if label is not None:
            here &= block_scopes.c.label == label
        its = select(block_scopes.c.block_id).where(here)

        async def work(conn: AsyncConnection) -> list[Block]:
            rows = await block_rows.read_blocks(conn, blocks.c.id.in_(its))
            return block_rows.in_order(await block_rows.to_blocks(conn, rows), scope)

        return await self._db.run_read(work)

    async def edit_block(
        self, tenant_id: str, block_id: str, edit: Callable[[Block], Block]
    ) -> Block | None:
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            old = await _find(conn, tenant_id, block_id)
            if old is None:
                return None
            new = edit(old)
            is_seen = _shown(new) != _shown(old)
            now = self._clock()
            new = replace(new, version=old.version + is_seen, updated_at=now)
            if new.label != old.label:
                await _relabel(conn, new)
            if is_seen:
                await block_rows.insert_version(conn, new, "UPDATE", now)
            values = block_rows.columns_of(new)
            await conn.execute(update(blocks).where(is_block(tenant_id, block_id)).values(values))
            async with quota.room(conn, tenant_id, None, self._limits):
                grown = len(new.value.encode()) - len(old.value.encode())
                await quota.count(conn, tenant_id, text_bytes=grown)
        return new

    async def attach_block(self, tenant_id: str, block_id: str, scope: Scope) -> Block | None:
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            block = await _find(conn, tenant_id, block_id)
            if block is not None and scope not in block.scopes:
                await block_rows.attach(conn, tenant_id, block_id, block.label, scope)
                block = await _find(conn, tenant_id, block_id)
            return block

    async def detach_block(self, tenant_id: str, block_id: str, scope: Scope) -> Block | None:
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            await conn.execute(
                delete(block_scopes).where(
                    block_scopes.c.tenant_id == tenant_id,
                    block_scopes.c.block_id == block_id,
                    block_scopes.c.scope_key == scope_digest(scope),
                )
            )
            return await _find(conn, tenant_id, block_id)

    async def delete_block(self, tenant_id: str, block_id: str) -> Removed | None:
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            removed = await remove_blocks(conn, is_block(tenant_id, block_id), self._clock())
        return removed if removed.blocks else None

    async def block_history(self, tenant_id: str, block_id: str) -> list[BlockEvent]:
        is_deletion = block_versions.c.event == "DELETE"
        query = (
            select(block_versions)
            .where(block_versions.c.tenant_id == tenant_id, block_versions.c.block_id == block_id)
            .order_by(block_versions.c.version, is_deletion)
        )
        async with self._db.read() as conn:
            rows = (await conn.execute(query)).mappings().all()
        return [BlockEvent(**{n: v for n, v in row.items() if n != "tenant_id"}) for row in rows]

    async def put_block_prefixes(
        self, fingerprint: str, block_ids: Sequence[str], keys: Sequence[str]
    ) -> None:
        now, wanted = self._clock(), set(block_ids)
        async with self._db.write() as conn:
            whose = select(blocks.c.tenant_id).where(blocks.c.id.in_(wanted)).distinct()
            await lock_tenants(conn, (await conn.scalars(whose)).all())
            live = set(await conn.scalars(select(blocks.c.id).where(blocks.c.id.in_(wanted))))
            if live != wanted:
                rows = [{"fingerprint": fingerprint, "key": k, "created_at": now} for k in keys]
                await conn.execute(insert(purges), rows)
                return
            its = block_prefixes.c.block_id.in_(wanted)
            same = its & (block_prefixes.c.fingerprint == fingerprint)
            await conn.execute(delete(block_prefixes).where(same, block_prefixes.c.key.in_(keys)))
            await conn.execute(
                insert(block_prefixes),
                [
                    {"block_id": block_id, "fingerprint": fingerprint, "key": key}
                    for block_id in sorted(wanted)
                    for key in keys
                ],
            )


def _shown(block: Block) -> tuple[Any, ...]:
    return block.label, block.value, block.description


async def _find(conn: AsyncConnection, tenant_id: str, block_id: str) -> Block | None:
    rows = await block_rows.read_blocks(conn, is_block(tenant_id, block_id))
    found = await block_rows.to_blocks(conn, rows)
    return found[0] if found else None


async def _relabel(conn: AsyncConnection, block: Block) -> None:
    keys = [scope_digest(scope) for scope in block.scopes]
    await block_rows.refuse_taken(conn, block.tenant_id, block.label, keys, but=block.id)
    its = block_scopes.c.block_id == block.id
    await conn.execute(update(block_scopes).where(its).values(label=block.label))
