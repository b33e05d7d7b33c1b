"""Rows of blocks, their scopes and versions: in the caller's transaction."""

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, and_, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Block, Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.store.block_tables import block_scopes, block_versions, blocks
from inferscale_sidecar.store.rows import batched, has_ids, scope_digest

_NARROWEST_FIRST = ("run_id", "user_id", "agent_id", "app_id")


def new_id() -> str:
    """An id that no other block has."""
    return f"block-{uuid.uuid4()}"


def is_block(tenant_id: str, block_id: str) -> ColumnElement[bool]:
    """Condition on `blocks`: this one of this tenant's."""
    return and_(blocks.c.tenant_id == tenant_id, blocks.c.id == block_id)


def attached_to(tenant_id: str, scope: Scope) -> ColumnElement[bool]:
    """Condition on `block_scopes`: this tenant, and every id that is given.

    Raises:
        ValueError: no id is given; an empty scope never means "everything".
    """
    return has_ids(block_scopes, tenant_id, scope)


def shown_in(tenant_id: str, scope: Scope) -> ColumnElement[bool]:
    """Condition on `block_scopes`: a composition of exactly these ids shows the block."""
    keys = [scope_digest(part) for part in scope.parts]
    return and_(block_scopes.c.tenant_id == tenant_id, block_scopes.c.scope_key.in_(keys))


async def read_blocks(
    conn: AsyncConnection, condition: ColumnElement[bool], *, limit: int | None = None
) -> list[Row[Any]]:
    """The rows of `blocks` for which the condition holds, oldest first."""
    query = select(blocks).where(condition).order_by(blocks.c.num).limit(limit)
    return list((await conn.execute(query)).all())


async def to_blocks(conn: AsyncConnection, rows: Sequence[Row[Any]]) -> list[Block]:
    """From rows of `blocks`, with what each is attached to."""
    scopes: dict[str, list[Scope]] = {}
    for some in batched([row.id for row in rows]):
        query = select(block_scopes).where(block_scopes.c.block_id.in_(some))
        for each in await conn.execute(query):
            scope = Scope.of(each)
            scopes.setdefault(each.block_id, []).append(scope)
    return [_to_block(row, scopes.get(row.id, ())) for row in rows]


async def attach(
    conn: AsyncConnection, tenant_id: str, block_id: str, label: str, scope: Scope
) -> None:
    """Attach to a scope that the block is not attached to.

    Raises:
        Conflict: another block has this label there.
    """
    key = scope_digest(scope)
    await refuse_taken(conn, tenant_id, label, [key], but=block_id)
    row = {
        "block_id": block_id,
        "tenant_id": tenant_id,
        **scope.ids,
        "scope_key": key,
        "label": label,
    }
    await conn.execute(insert(block_scopes), row)


async def refuse_taken(
    conn: AsyncConnection, tenant_id: str, label: str, keys: Iterable[str], *, but: str
) -> None:
    """Raises Conflict if another block than `but` has this label in one of these scopes."""
    query = select(block_scopes.c.block_id).where(
        block_scopes.c.tenant_id == tenant_id,
        block_scopes.c.scope_key.in_(list(keys)),
        block_scopes.c.label == label,
        block_scopes.c.block_id != but,
    )
    taken = await conn.scalar(query.limit(1))
    if taken is not None:
        raise Conflict(
            f"block {taken} has the label {label!r} in this scope already; change that one, or "
            "use another label",
            code="block_label_taken",
            param="label",
        )


async def insert_version(
    conn: AsyncConnection, block: Block, event: Literal["ADD", "UPDATE"], now: datetime
) -> None:
    """Keep a version of a block."""
    row = {
        "block_id": block.id,
        "version": block.version,
        "event": event,
        "tenant_id": block.tenant_id,
        "label": block.label,
        "value": block.value,
        "description": block.description,
        "created_at": now,
    }
    await conn.execute(insert(block_versions), row)


def columns_of(block: Block) -> dict[str, Any]:
    """What of a block stands in its row and can change."""
    return {
        "label": block.label,
        "value": block.value,
        "description": block.description,
        "char_limit": block.limit,
        "read_only": block.read_only,
        "metadata": block.metadata,
        "version": block.version,
        "updated_at": block.updated_at,
    }


def in_order(found: Iterable[Block], scope: Scope) -> list[Block]:
    """As a composition of these ids shows them."""
    parts = scope.parts

    def rank(block: Block) -> tuple[Any, ...]:
        widths = [
            tuple(getattr(each, name) is not None for name in _NARROWEST_FIRST)
            for each in block.scopes
            if each in parts
        ]
        return (min(widths), block.label, block.created_at, block.id)

    return sorted(found, key=rank)


def _to_block(row: Row[Any], scopes: Sequence[Scope]) -> Block:
    ordered = sorted(scopes, key=lambda s: [value or "" for value in s.ids.values()])
    return Block(
        id=row.id,
        tenant_id=row.tenant_id,
        label=row.label,
        value=row.value,
        version=row.version,
        limit=row.char_limit,
        scopes=tuple(ordered),
        created_at=row.created_at,
        updated_at=row.updated_at,
        description=row.description,
        read_only=row.read_only,
        metadata=row.metadata,
    )
