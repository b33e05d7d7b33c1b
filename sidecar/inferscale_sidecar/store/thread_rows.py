"""Rows of threads and their messages: in the caller's transaction."""

from typing import Any

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Scope, Thread, ThreadMessage
from inferscale_sidecar.store.rows import has_ids
from inferscale_sidecar.store.thread_tables import threads


def threads_in(tenant_id: str, scope: Scope) -> ColumnElement[bool]:
    """Condition on `threads`: this tenant, and every id that is given; a run is a thread's id."""
    return has_ids(threads, tenant_id, scope, run_id="id")


async def find_thread(conn: AsyncConnection, tenant_id: str, thread_id: str) -> Row[Any] | None:
    """The tenant's thread with this id."""
    query = select(threads).where(threads.c.tenant_id == tenant_id, threads.c.id == thread_id)
    return (await conn.execute(query)).one_or_none()


def to_thread(row: Row[Any]) -> Thread:
    """From a row of `threads`."""
    scope = Scope(row.user_id, row.agent_id, row.id, row.app_id)
    return Thread(row.id, row.tenant_id, scope, row.created_at, row.updated_at, row.metadata)


def to_message(row: Row[Any]) -> ThreadMessage:
    """From a row of `thread_messages`."""
    return ThreadMessage(
        id=row.id,
        role=row.role,
        content=row.content,
        created_at=row.created_at,
        name=row.name,
        said_at=row.said_at,
        metadata=row.metadata,
    )
