"""Threads and their messages that go out or come in as they are.

As with memories, what is here stays as it is. A thread keeps its id in any tenant: it is the run of
what is remembered from it. Invariant: nothing is put into a thread of another user, agent or app.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Scope, Thread, ThreadMessage
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import BATCH, batched, next_seq
from inferscale_sidecar.store.thread_rows import threads_in, to_message, to_thread
from inferscale_sidecar.store.thread_tables import thread_messages, threads
from inferscale_sidecar.store.transfer_port import Fate, MovedMessage


async def read_out(
    conn: AsyncConnection, tenant_id: str, scope: Scope | None
) -> AsyncIterator[list[Thread | MovedMessage]]:
    """A tenant's threads, or those of a scope, in batches; then the messages of each batch."""
    condition = threads.c.tenant_id == tenant_id if scope is None else threads_in(tenant_id, scope)
    last = 0
    while True:
        query = select(threads).where(condition, threads.c.num > last).order_by(threads.c.num)
        rows = (await conn.execute(query.limit(BATCH))).all()
        if not rows:
            return
        found = {row.num: to_thread(row) for row in rows}
        yield list(found.values())
        its = select(thread_messages).where(thread_messages.c.thread_num.in_(list(found)))
        messages = await conn.stream(
            its.order_by(thread_messages.c.thread_num, thread_messages.c.num)
        )
        async for some in messages.partitions(BATCH):
            yield [MovedMessage(found[row.thread_num].scope, to_message(row)) for row in some]
        last = rows[-1].num


class SqlThreadArrivals:
    """The part of `TransferPort` that writes threads."""

    _db: Database
    _limits: Limits

    async def import_threads(
        self, tenant_id: str, incoming: Sequence[Thread], *, dry_run: bool = False
    ) -> list[Fate]:
        if dry_run:
            async with self._db.read() as conn:
                return (await _judge_threads(conn, tenant_id, incoming))[0]
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            fates, new = await _judge_threads(conn, tenant_id, incoming)
            async with quota.room(conn, tenant_id, None, self._limits):
                await _insert_threads(conn, tenant_id, new)
        return fates

    async def import_messages(
        self,
        tenant_id: str,
        incoming: Sequence[MovedMessage],
        *,
        alias: Callable[[str], str],
        dry_run: bool = False,
    ) -> list[Fate]:
        if dry_run:
            async with self._db.read() as conn:
                return (await _judge(conn, tenant_id, incoming, alias))[0]
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            homes = [_home_of(each) for each in incoming]
            _, homeless = await _judge_threads(conn, tenant_id, homes)
            async with quota.room(conn, tenant_id, None, self._limits):
                await _insert_threads(conn, tenant_id, homeless)
                fates, rows = await _judge(conn, tenant_id, incoming, alias)
                await _insert_messages(conn, tenant_id, rows)
        return fates


async def _known(conn: AsyncConnection, tenant_id: str, ids: Sequence[str]) -> dict[str, Row[Any]]:
    """The tenant's threads with these ids."""
    known: dict[str, Row[Any]] = {}
    for some in batched(sorted(set(ids))):
        query = select(threads).where(threads.c.tenant_id == tenant_id, threads.c.id.in_(some))
        known |= {row.id: row for row in await conn.execute(query)}
    return known


async def _judge_threads(
    conn: AsyncConnection, tenant_id: str, incoming: Sequence[Thread]
) -> tuple[list[Fate], list[Thread]]:
    """What would become of each, and those that are new."""
    rows = await _known(conn, tenant_id, [each.id for each in incoming])
    known = {row.id: to_thread(row) for row in rows.values()}
    fates: list[Fate] = []
    new: list[Thread] = []
    for each in incoming:
        here = known.setdefault(each.id, each)
        if here is each:
            new.append(each)
        is_same = (here.scope, here.metadata) == (each.scope, each.metadata)
        fates.append("new" if here is each else "unchanged" if is_same else "differing")
    return fates, new


async def _insert_threads(
    conn: AsyncConnection, tenant_id: str, incoming: Sequence[Thread]
) -> None:
    rows = [
        {
            "id": each.id,
            "tenant_id": tenant_id,
            **each.scope.thread_ids,
            "metadata": each.metadata,
            "created_at": each.created_at,
            "updated_at": each.updated_at,
        }
        for each in incoming
    ]
    if rows:
        await conn.execute(insert(threads), rows)
        await quota.count(conn, tenant_id, threads=len(rows))


async def _insert_messages(
    conn: AsyncConnection, tenant_id: str, rows: Sequence[dict[str, Any]]
) -> None:
    if rows:
        await conn.execute(insert(thread_messages), rows)
        await quota.count_texts(conn, tenant_id, "messages", [row["content"] for row in rows])
        await _touch(conn, rows)


def _home_of(moved: MovedMessage) -> Thread:
    """The thread that a message needs, if there is none: its own line was left out."""
    made, scope = moved.message.created_at, moved.thread
    return Thread(scope.run_id or "", "", scope, made, made)


async def _judge(
    conn: AsyncConnection,
    tenant_id: str,
    incoming: Sequence[MovedMessage],
    alias: Callable[[str], str],
) -> tuple[list[Fate], list[dict[str, Any]]]:
    """What would become of each message, and the rows of those that are new."""
    homes = await _known(conn, tenant_id, [each.thread.run_id or "" for each in incoming])
    names = [_names(each, alias) for each in incoming]
    known = await _messages(conn, [name for both in names for name in both])
    fates: list[Fate] = []
    rows: list[dict[str, Any]] = []
    for each, both in zip(incoming, names, strict=True):
        home = homes.get(each.thread.run_id or "")
        if home is not None and to_thread(home).scope != each.thread:
            fates.append("differing")
            continue
        num = None if home is None else home.num
        here = next((known[n] for n in both if n in known and known[n]["thread_num"] == num), None)
        if here is None:
            name = both[0] if both[0] not in known else both[1]
            row = _row(num, name, each.message)
            known[name] = row
            rows.append(row)
        fates.append("new" if here is None else _compare(here, each.message))
    return fates, rows


def _names(moved: MovedMessage, alias: Callable[[str], str]) -> tuple[str, str]:
    """Its id, and the one that it gets where that is taken: the same each time."""
    return moved.message.id, alias(f"{moved.thread.run_id}/{moved.message.id}")


async def _messages(conn: AsyncConnection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Rows with these ids, in whatever thread: an id is given once in a database."""
    known: dict[str, dict[str, Any]] = {}
    for some in batched(sorted(set(ids))):
        query = select(thread_messages).where(thread_messages.c.id.in_(some))
        known |= {row.id: row._asdict() for row in await conn.execute(query)}
    return known


def _row(thread_num: int | None, name: str, message: ThreadMessage) -> dict[str, Any]:
    return {**vars(message), "id": name, "thread_num": thread_num}


def _compare(here: dict[str, Any], message: ThreadMessage) -> Fate:
    fields = ("role", "content", "name", "metadata")
    is_same = all(here[field] == getattr(message, field) for field in fields)
    return "unchanged" if is_same else "differing"


async def _touch(conn: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
    """A thread is as new as its newest message."""
    newest: dict[int, Any] = {}
    for row in rows:
        num, made = row["thread_num"], row["created_at"]
        newest[num] = max(made, newest.get(num, made))
    query = (
        update(threads)
        .where(threads.c.num == bindparam("its_num"), threads.c.updated_at < bindparam("made"))
        .values(updated_at=bindparam("made"))
    )
    await conn.execute(query, [{"its_num": num, "made": made} for num, made in newest.items()])
