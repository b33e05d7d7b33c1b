"""Conversation threads in SQL: messages word for word, in the order in which they were added."""

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Scope, Thread, ThreadMessage
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import quota, summaries
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.purges import purge_tails, purge_tails_of_threads
from inferscale_sidecar.store.records import Removed
from inferscale_sidecar.store.rows import batched, lock_tenants, next_seq
from inferscale_sidecar.store.thread_port import MessageDraft, MessagePage, ThreadPage
from inferscale_sidecar.store.thread_rows import find_thread, threads_in, to_message, to_thread
from inferscale_sidecar.store.thread_tables import thread_messages, threads


class SqlThreads:
    """Implements `ThreadPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def create_thread(
        self, tenant_id: str, thread_id: str, scope: Scope, metadata: dict[str, Any] | None
    ) -> Thread:
        now = self._clock()
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            known = await find_thread(conn, tenant_id, thread_id)
            if known is None:
                row = {
                    "id": thread_id,
                    "tenant_id": tenant_id,
                    **scope.thread_ids,
                    "metadata": metadata,
                    "created_at": now,
                    "updated_at": now,
                }
                async with quota.room(conn, tenant_id, None, self._limits):
                    await conn.execute(insert(threads), row)
                    await quota.count(conn, tenant_id, threads=1)
                known = await find_thread(conn, tenant_id, thread_id)
        assert known is not None
        found = to_thread(known)
        if found.scope.thread_ids != scope.thread_ids:
            raise Conflict(
                f"thread {thread_id[:64]!a} belongs to another user, agent or app; choose another "
                "id",
                code="thread_id_taken",
                param="id",
            )
        return found

    async def get_thread(self, tenant_id: str, thread_id: str) -> Thread | None:
        async with self._db.read() as conn:
            row = await find_thread(conn, tenant_id, thread_id)
        return to_thread(row) if row else None

    async def list_threads(
        self, tenant_id: str, scope: Scope | None = None, *, limit: int, after: int | None = None
    ) -> ThreadPage:
        condition = threads.c.tenant_id == tenant_id
        if scope is not None:
            condition = threads_in(tenant_id, scope)
        rest = condition if after is None else condition & (threads.c.num > after)
        query = select(threads).where(rest).order_by(threads.c.num).limit(limit + 1)
        async with self._db.read() as conn:
            total = await conn.scalar(select(func.count()).select_from(threads).where(condition))
            rows = (await conn.execute(query)).all()
        more = len(rows) > limit
        found = [to_thread(row) for row in rows[:limit]]
        return ThreadPage(found, total or 0, rows[limit - 1].num if more else None)

    async def add_messages(
        self,
        tenant_id: str,
        thread_id: str,
        drafts: Sequence[MessageDraft],
        *,
        key: str | None = None,
    ) -> list[ThreadMessage] | None:
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            thread = await find_thread(conn, tenant_id, thread_id)
            if thread is None or not drafts:
                return None if thread is None else []
            # One more than there are: an earlier request may have had more messages.
            *ids, more = [_message_id(thread.num, key, at) for at in range(len(drafts) + 1)]
            if key and (earlier := await _read(conn, [*ids, more])):
                _refuse_others(earlier, drafts)
                return earlier
            now = self._clock()
            rows = [
                {"id": each, "thread_num": thread.num, "created_at": now, **vars(draft)}
                for each, draft in zip(ids, drafts, strict=True)
            ]
            async with quota.room(conn, tenant_id, None, self._limits):
                await conn.execute(insert(thread_messages), rows)
                texts = [draft.content for draft in drafts]
                await quota.count_texts(conn, tenant_id, "messages", texts)
            is_this = threads.c.num == thread.num
            await conn.execute(update(threads).where(is_this).values(updated_at=now))
            return await _read(conn, ids)

    async def list_messages(
        self,
        tenant_id: str,
        thread_id: str,
        *,
        limit: int,
        start: int | None = None,
        newest_first: bool = False,
    ) -> MessagePage | None:
        num = thread_messages.c.num
        async with self._db.read() as conn:
            thread = await find_thread(conn, tenant_id, thread_id)
            if thread is None:
                return None
            its = thread_messages.c.thread_num == thread.num
            total = await conn.scalar(select(func.count()).select_from(thread_messages).where(its))
            if start is not None:
                its &= num < start if newest_first else num > start
            order = num.desc() if newest_first else num
            query = select(thread_messages).where(its).order_by(order).limit(limit + 1)
            rows = (await conn.execute(query)).all()
        more = len(rows) > limit
        found = [to_message(row) for row in rows[:limit]]
        return MessagePage(found, total or 0, rows[limit - 1].num if more else None)

    async def delete_message(self, tenant_id: str, thread_id: str, message_id: str) -> bool:
        async with self._db.write() as conn:
            await lock_tenants(conn, [tenant_id])
            thread = await find_thread(conn, tenant_id, thread_id)
            if thread is None:
                return False
            is_this = (thread_messages.c.thread_num == thread.num) & (
                thread_messages.c.id == message_id
            )
            gone = await conn.scalar(select(thread_messages.c.num).where(is_this))
            if gone is None:
                return False
            await summaries.unsay(conn, thread.num, gone, self._clock())
            await quota.discount(conn, "messages", is_this)
            return bool((await conn.execute(delete(thread_messages).where(is_this))).rowcount)

    async def delete_thread(self, tenant_id: str, thread_id: str) -> Removed | None:
        is_this = and_(threads.c.tenant_id == tenant_id, threads.c.id == thread_id)
        async with self._db.write() as conn:
            await next_seq(conn, tenant_id)
            row = await find_thread(conn, tenant_id, thread_id)
            if row is None:
                return None
            now = self._clock()
            removed = await remove_threads(conn, tenant_id, is_this, now)
            tails = await purge_tails(conn, tenant_id, Scope(row.user_id, run_id=row.id), now)
        return removed + Removed(0, 0, tails=tails)


async def remove_threads(
    conn: AsyncConnection, tenant_id: str, condition: ColumnElement[bool], now: datetime
) -> Removed:
    """Remove the threads for which `condition` (on `threads`) holds, with their messages.

    What banks keep of conversations that name them is due for purge.
    """
    tails = await purge_tails_of_threads(conn, tenant_id, condition, now)
    its = thread_messages.c.thread_num.in_(select(threads.c.num).where(condition))
    await quota.discount(conn, "messages", its)
    await quota.discount(conn, "threads", condition)
    messages = (await conn.execute(delete(thread_messages).where(its))).rowcount
    gone = (await conn.execute(delete(threads).where(condition))).rowcount
    return Removed(0, 0, threads=gone, messages=messages, tails=tails)


async def _read(conn: AsyncConnection, ids: Sequence[str]) -> list[ThreadMessage]:
    """Those of these messages that there are, in the order in which they were added."""
    found: list[ThreadMessage] = []
    for some in batched(ids):
        query = select(thread_messages).where(thread_messages.c.id.in_(some))
        rows = await conn.execute(query.order_by(thread_messages.c.num))
        found += [to_message(row) for row in rows]
    return found


def _message_id(thread_num: int, key: str | None, at: int) -> str:
    """The same id for the same message of the same request, so that it is kept once."""
    if key is None:
        return str(uuid.uuid4())
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"thread-message/{thread_num}/{key}/{at}"))


def _refuse_others(earlier: Sequence[ThreadMessage], drafts: Sequence[MessageDraft]) -> None:
    known = [(m.role, m.content, m.name) for m in earlier]
    if known != [(d.role, d.content, d.name) for d in drafts]:
        raise Conflict(
            "this Idempotency-Key was already used for other messages; use a new key for each "
            "distinct request",
            code="idempotency_key_reused",
        )
