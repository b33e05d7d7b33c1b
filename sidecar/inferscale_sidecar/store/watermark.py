"""How far the build queue need not look back: before a mark everything is built, or given up.

Owns one number per engine fingerprint in memory, and in the database a token that changes whenever
KV is dropped, by whichever process. Invariant: a mark counts only while its token is the current
one. On PostgreSQL memories do not become visible in the order of their numbers: a mark is never
raised above one that a transaction in flight may still bring.
"""

import secrets
from dataclasses import dataclass

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store.rows import insert_or
from inferscale_sidecar.store.schema import memories, meta

_KEY = "kv_dropped"
_TRANSACTIONS = text(
    "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint"
    " FROM pg_current_snapshot() AS s"
)


async def lower_water_marks(conn: AsyncConnection) -> None:
    """KV was dropped in this transaction: what is old may be pending again."""
    new = insert_or(conn, meta).values(key=_KEY, value=secrets.token_hex(8))
    change = {"value": new.excluded.value}
    await conn.execute(new.on_conflict_do_update(index_elements=[meta.c.key], set_=change))


class WaterMarks:
    """Marks by engine fingerprint. Without them each look at the queue would walk all memories."""

    def __init__(self) -> None:
        self._token: str | None = None
        self._marks: dict[str, int] = {}
        self._horizon = Horizon()

    async def get(self, conn: AsyncConnection, fingerprint: str) -> "Mark":
        """Where to start in the snapshot that `conn` reads."""
        token = await conn.scalar(select(meta.c.value).where(meta.c.key == _KEY))
        if token != self._token:
            self._token = token
            self._marks.clear()
        settled = await self._horizon.look(conn)
        return Mark(token, self._marks.get(fingerprint, 0), settled)

    def raise_to(self, num: int | None, fingerprint: str, *, seen: "Mark") -> None:
        """Everything before `num` (None: everything) was built or given up in the snapshot where
        `seen` was got."""
        if seen.token == self._token:
            limit = seen.settled + 1
            self._marks[fingerprint] = limit if num is None else min(num, limit)


class Horizon:
    """Up to which number all memories are visible, or never will be.

    Writers have their transaction's id before they take numbers. So what is numbered up to the
    newest visible memory comes from transactions that had begun by then; once those have ended,
    all of it is settled.
    """

    def __init__(self) -> None:
        self._settled = 0
        self._waiting: tuple[int, int] | None = None  # first id not begun, newest number then

    async def look(self, conn: AsyncConnection) -> int:
        """The number, for the snapshot that `conn` reads."""
        newest = await conn.scalar(select(func.max(memories.c.num))) or 0
        if conn.dialect.name != "postgresql":
            return newest  # SQLite has one writer
        oldest_running, first_unborn = (await conn.execute(_TRANSACTIONS)).one()
        if self._waiting is None:
            self._waiting = (first_unborn, newest)
        if oldest_running >= self._waiting[0]:
            self._settled, self._waiting = self._waiting[1], None
        return self._settled


@dataclass(frozen=True)
class Mark:
    """Number of the first memory that may be pending, the token that this holds for, and the
    number up to which no memory is still to come."""

    token: str | None
    num: int
    settled: int
