"""How far the build queue need not look back: before a mark everything is built, or given up.

Owns one number per engine fingerprint in memory, and in the database a token that changes whenever
KV is dropped, by whichever process. Invariant: a mark counts only while its token is the current
one. Relies on memories becoming visible in the order of their numbers: SQLite has one writer.
"""

import secrets
from dataclasses import dataclass

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store.schema import meta

_KEY = "kv_dropped"


async def lower_water_marks(conn: AsyncConnection) -> None:
    """KV was dropped in this transaction: what is old may be pending again."""
    token = secrets.token_hex(8)
    changed = await conn.execute(update(meta).where(meta.c.key == _KEY).values(value=token))
    if not changed.rowcount:
        await conn.execute(insert(meta).values(key=_KEY, value=token))


class WaterMarks:
    """Marks by engine fingerprint. Without them each look at the queue would walk all memories."""

    def __init__(self) -> None:
        self._token: str | None = None
        self._marks: dict[str, int] = {}

    async def get(self, conn: AsyncConnection, fingerprint: str) -> "Mark":
        """Where to start in the snapshot that `conn` reads."""
        token = await conn.scalar(select(meta.c.value).where(meta.c.key == _KEY))
        if token != self._token:
            self._token = token
            self._marks.clear()
        return Mark(token, self._marks.get(fingerprint, 0))

    def raise_to(self, num: int, fingerprint: str, *, seen: "Mark") -> None:
        """Everything before `num` was built or given up in the snapshot where `seen` was got."""
        if seen.token == self._token:
            self._marks[fingerprint] = num


@dataclass(frozen=True)
class Mark:
    """Number of the first memory that may be pending, and the token that this holds for."""

    token: str | None
    num: int
