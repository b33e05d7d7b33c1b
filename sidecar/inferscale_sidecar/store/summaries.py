"""Thread summaries in SQL. Invariant: no summary says what a message said that is gone."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import lock_tenants
from inferscale_sidecar.store.summary_port import SummaryWork, ThreadSummary
from inferscale_sidecar.store.thread_rows import find_thread, to_message
from inferscale_sidecar.store.thread_tables import thread_messages, thread_summaries, threads

MAX_ERROR_CHARS = 1_000


class SqlSummaries:
    """Implements `SummaryPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def ask_for_summary(self, tenant_id: str, thread_id: str, *, keep: int) -> bool:
        async with self._db.read() as conn:  # most often there is nothing to do, and no lock needed
            thread = await find_thread(conn, tenant_id, thread_id)
            if thread is None or not await _is_due(conn, thread.num, keep):
                return False
        async with self._db.write() as conn:
            await lock_tenants(conn, [tenant_id])
            thread = await find_thread(conn, tenant_id, thread_id)
            if thread is None:
                return False
            await _set(conn, thread.num, {"state": "pending", "updated_at": self._clock()})
        return True

    async def pending_summaries(self, *, limit: int) -> list[tuple[str, str]]:
        query = (
            select(threads.c.tenant_id, threads.c.id)
            .join(thread_summaries, thread_summaries.c.thread_num == threads.c.num)
            .where(thread_summaries.c.state == "pending")
            .order_by(thread_summaries.c.updated_at, threads.c.num)
            .limit(limit)
        )
        async with self._db.read() as conn:
            return [(row.tenant_id, row.id) for row in await conn.execute(query)]

    async def summary_work(
        self, tenant_id: str, thread_id: str, *, keep: int, limit: int, max_chars: int
    ) -> SummaryWork | None:
        num = thread_messages.c.num
        async with self._db.read() as conn:
            thread = await find_thread(conn, tenant_id, thread_id)
            known = await _find(conn, thread.num) if thread else None
            if thread is None or known is None or known.state != "pending":
                return None
            rest = (thread_messages.c.thread_num == thread.num) & (num > known.up_to)
            more = max(0, await _count(conn, rest) - keep)
            query = select(thread_messages).where(rest).order_by(num).limit(min(limit, more))
            rows = _bounded((await conn.execute(query)).all(), max_chars)
        found = [to_message(row) for row in rows]
        return SummaryWork(known.up_to, known.text, found, rows[-1].num if rows else known.up_to)

    async def put_summary(
        self, tenant_id: str, thread_id: str, work: SummaryWork, text: str, *, keep: int
    ) -> bool:
        async with self._db.write() as conn:
            await lock_tenants(conn, [tenant_id])
            thread = await find_thread(conn, tenant_id, thread_id)
            known = await _find(conn, thread.num) if thread else None
            if (
                thread is None
                or known is None
                or (known.up_to, known.text)
                != (
                    work.after,
                    work.text,
                )
            ):
                return False
            its = thread_messages.c.thread_num == thread.num
            its &= thread_messages.c.num.between(work.after + 1, work.up_to)
            there = await conn.scalars(select(thread_messages.c.id).where(its))
            if set(there) != {message.id for message in work.messages}:
                return False
            values = {
                "text": text or None,
                "up_to": work.up_to,
                "num_messages": known.num_messages + len(work.messages),
                "error": None,
                "updated_at": self._clock(),
            }
            await _set(conn, thread.num, values)
            rest = thread_messages.c.thread_num == thread.num
            rest &= thread_messages.c.num > work.up_to
            state = "pending" if await _count(conn, rest) > keep else "done"
            await _set(conn, thread.num, {"state": state})
        return True

    async def fail_summary(self, tenant_id: str, thread_id: str, error: str) -> None:
        async with self._db.write() as conn:
            await lock_tenants(conn, [tenant_id])
            thread = await find_thread(conn, tenant_id, thread_id)
            if thread is not None and await _find(conn, thread.num) is not None:
                values = {"state": "failed", "error": error[:MAX_ERROR_CHARS]}
                await _set(conn, thread.num, values | {"updated_at": self._clock()})

    async def get_summary(self, tenant_id: str, thread_id: str) -> ThreadSummary | None:
        query = (
            select(thread_summaries)
            .join(threads, threads.c.num == thread_summaries.c.thread_num)
            .where(threads.c.tenant_id == tenant_id, threads.c.id == thread_id)
        )
        async with self._db.read() as conn:
            row = (await conn.execute(query)).one_or_none()
        if row is None:
            return None
        return ThreadSummary(row.state, row.text, row.num_messages, row.updated_at, row.error)


async def unsay(conn: AsyncConnection, thread_num: int, message_num: int, now: datetime) -> None:
    """Before a message is removed: a summary that it is in is made again from the start."""
    known = await _find(conn, thread_num)
    if known is not None and message_num <= known.up_to:
        values = {"state": "pending", "text": None, "up_to": 0, "num_messages": 0, "error": None}
        await _set(conn, thread_num, values | {"updated_at": now})


async def _find(conn: AsyncConnection, thread_num: int) -> Row[Any] | None:
    query = select(thread_summaries).where(thread_summaries.c.thread_num == thread_num)
    return (await conn.execute(query)).one_or_none()


async def _set(conn: AsyncConnection, thread_num: int, values: dict[str, Any]) -> None:
    its = thread_summaries.c.thread_num == thread_num
    if not (await conn.execute(update(thread_summaries).where(its).values(values))).rowcount:
        new = {"thread_num": thread_num, "up_to": 0, "num_messages": 0}
        await conn.execute(insert(thread_summaries), new | values)


async def _is_due(conn: AsyncConnection, thread_num: int, keep: int) -> bool:
    """True if it waits, or `keep` messages or more could be summarized."""
    known = await _find(conn, thread_num)
    rest = thread_messages.c.thread_num == thread_num
    if known is not None:
        if known.state == "pending":
            return True
        rest &= thread_messages.c.num > known.up_to
    return await _count(conn, rest) >= 2 * keep


async def _count(conn: AsyncConnection, its: ColumnElement[bool]) -> int:
    return await conn.scalar(select(func.count()).select_from(thread_messages).where(its)) or 0


def _bounded(rows: Sequence[Row[Any]], max_chars: int) -> Sequence[Row[Any]]:
    """The first of them that are not too much text together; one at least."""
    size = 0
    for at, row in enumerate(rows):
        size += len(row.content)
        if at and size > max_chars:
            return rows[:at]
    return rows
