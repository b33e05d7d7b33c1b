"""How much of the store a tenant uses and may use, in the caller's transaction.

Invariant: the counts on a tenant's row are those of what it keeps, and no committed write adds to a
tenant that is over a quota. Every write locks the tenant's row first (`rows.next_seq`), so this
holds against concurrent writers in other processes too.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import cache
from typing import Any, Literal, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Update,
    bindparam,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.errors import NotFound, QuotaExceeded, TooLarge
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store.block_tables import blocks
from inferscale_sidecar.store.columns import num_bytes
from inferscale_sidecar.store.document_schema import documents
from inferscale_sidecar.store.records import Usage
from inferscale_sidecar.store.schema import memories, tenant_limits, tenants
from inferscale_sidecar.store.thread_tables import thread_messages, threads

Kind = Literal["memories", "blocks", "threads", "messages", "documents"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_COUNTS: Mapping[str, Column[Any]] = {
    "memories": tenants.c.num_memories,
    "blocks": tenants.c.num_blocks,
    "threads": tenants.c.num_threads,
    "messages": tenants.c.num_messages,
    "documents": tenants.c.num_documents,
    "text_bytes": tenants.c.text_bytes,
}
_OWN_LIMITS = select(tenant_limits.c.name, tenant_limits.c.value).where(
    tenant_limits.c.tenant_id == bindparam("tenant")
)
_WORDS = {"messages": "messages of threads", "text_bytes": "bytes of text"}


def rows_of(kind: Kind) -> Select[Any]:
    """Whose each row of a kind is (`tenant_id`), and the bytes of its text (`size`)."""
    if kind == "messages":
        whose = thread_messages.join(threads, threads.c.num == thread_messages.c.thread_num)
        return _rows(threads.c.tenant_id, thread_messages.c.content).select_from(whose)
    return {
        "memories": _rows(memories.c.tenant_id, memories.c.text),
        "blocks": _rows(blocks.c.tenant_id, blocks.c.value),
        "threads": _rows(threads.c.tenant_id, literal("")),
        "documents": _rows(documents.c.tenant_id, documents.c.value),
    }[kind]


def _rows(tenant_id: ColumnElement[Any], text: ColumnElement[Any]) -> Select[Any]:
    return select(tenant_id.label("tenant_id"), num_bytes(text).label("size"))


async def own_limits(conn: AsyncConnection, tenant_id: str) -> dict[str, int]:
    """What is set for this tenant alone."""
    found = await conn.execute(_OWN_LIMITS, {"tenant": tenant_id})
    return {row.name: row.value for row in found}


async def limits_of(conn: AsyncConnection, tenant_id: str, defaults: Limits) -> Limits:
    """What holds for this tenant."""
    own = await own_limits(conn, tenant_id)
    return replace(defaults, **own) if own else defaults


async def count(conn: AsyncConnection, tenant_id: str, **changes: int) -> None:
    """Add to what the tenant uses, by the names of `Usage`; negative numbers take away."""
    more = {f"more_{name}": number for name, number in changes.items() if number}
    if more:
        names = tuple(name for name, number in changes.items() if number)
        await conn.execute(_adding(names), more | {"tenant": tenant_id})


@cache
def _adding(names: tuple[str, ...]) -> Update:
    """Adds `more_<name>` to each of these counts of a `tenant`."""
    values = {_COUNTS[name].name: _COUNTS[name] + bindparam(f"more_{name}") for name in names}
    return update(tenants).where(tenants.c.id == bindparam("tenant")).values(values)


async def count_texts(
    conn: AsyncConnection, tenant_id: str, kind: Kind, texts: Collection[str]
) -> None:
    """Count rows with these texts, which are being inserted."""
    size = sum(len(text.encode()) for text in texts)
    await count(conn, tenant_id, **{kind: len(texts), "text_bytes": size})


async def discount(conn: AsyncConnection, kind: Kind, condition: ColumnElement[bool]) -> None:
    """Take away what the rows for which `condition` holds amount to; then delete them."""
    gone = rows_of(kind).where(condition).subquery()
    size = func.coalesce(func.sum(gone.c.size), 0)
    query = select(gone.c.tenant_id, func.count().label("rows"), size.label("size"))
    for row in (await conn.execute(query.group_by(gone.c.tenant_id))).all():
        await count(conn, row.tenant_id, **{kind: -row.rows, "text_bytes": -int(row.size)})


@asynccontextmanager
async def room(
    conn: AsyncConnection,
    tenant_id: str,
    user_id: str | None,
    defaults: Limits,
    *,
    texts: Iterable[str] = (),
) -> AsyncIterator[None]:
    """Around what may add anything: raises if that is more than the tenant may have.

    Args:
        conn: in a write transaction, in which the tenant's row is locked.
        user_id: whose memories are added, if anyone's.
        defaults: the server's limits.
        texts: about to be written.

    Raises:
        TooLarge: one of the texts is over the limit for one memory.
        QuotaExceeded: at the end, if something grew beyond a limit.
    """
    limits = await limits_of(conn, tenant_id, defaults)
    _check_texts(limits, texts)
    if not limits.memories_per_user and not any(getattr(limits, name) for name in _COUNTS):
        yield
        return
    before = asdict(await used(conn, tenant_id))
    yield
    after = asdict(await used(conn, tenant_id))
    for name in _COUNTS:
        if after[name] > before[name]:
            _check(name, after[name], getattr(limits, name), _WORDS.get(name, name))
    if limits.memories_per_user and user_id is not None and after["memories"] > before["memories"]:
        its = await _used_by_user(conn, tenant_id, user_id)
        _check("memories_per_user", its, limits.memories_per_user, "memories of this user")


async def used(conn: AsyncConnection, tenant_id: str) -> Usage:
    """What a tenant keeps. Raises NotFound."""
    columns = [column.label(name) for name, column in _COUNTS.items()]
    query = select(*columns).where(tenants.c.id == tenant_id)
    row = (await conn.execute(query)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"no tenant {tenant_id!r}; it was removed, or never created")
    return Usage(**row)


async def _used_by_user(conn: AsyncConnection, tenant_id: str, user_id: str) -> int:
    its = (memories.c.tenant_id == tenant_id) & (memories.c.user_id == user_id)
    return await conn.scalar(select(func.count()).select_from(memories).where(its)) or 0


def _check_texts(limits: Limits, texts: Iterable[str]) -> None:
    most = limits.text_bytes_per_memory
    if not most:
        return
    for text in texts:
        size = len(text.encode())
        if size > most:
            raise TooLarge(
                f"a text is {size} bytes, and the tenant's limit text_bytes_per_memory is {most}; "
                "split the text, or have the limit raised with "
                "'inferscale-sidecar tenants limits'",
                code="text_too_large",
            )


def _check(limit: str, used: int, most: int, what: str) -> None:
    if most and used > most:
        raise QuotaExceeded(
            f"this would make {used} {what}, and the tenant's limit {limit} is {most}; "
            "delete what is not needed, or have the limit raised with "
            "'inferscale-sidecar tenants limits'",
            limit=limit,
            value=most,
        )
