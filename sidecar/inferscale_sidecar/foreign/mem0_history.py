"""Mem0's history database: what happened to each memory. SQLite, read only, looked up by id."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.foreign.qdrant_folder import read_only

_COLUMNS = "event, old_memory, new_memory, created_at, updated_at"


@dataclass(frozen=True)
class Happened:
    """One row: an addition or a change. Times as Mem0 wrote them."""

    event: str
    old: str | None
    new: str | None
    at: str | None


class Mem0History:
    """A history database.

    Raises:
        ConfigError: it is not there, or is none.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.expanduser()
        with self._open() as conn:
            conn.execute(f"SELECT memory_id, {_COLUMNS} FROM history LIMIT 1")

    @contextmanager
    def reader(self) -> Iterator["Mem0Reader"]:
        """While the block runs, rows can be looked up."""
        with self._open() as conn:
            # Mem0 has no index on it: without one, each look-up would walk all rows.
            conn.execute(
                "CREATE TEMP TABLE place AS SELECT memory_id, rowid AS at FROM main.history "
                "WHERE event IN ('ADD', 'UPDATE')"
            )
            conn.execute("CREATE INDEX temp.place_memory ON place (memory_id, at)")
            yield Mem0Reader(conn)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(read_only(self._file)) as conn:
            try:
                yield conn
            except sqlite3.Error as error:
                raise ConfigError(
                    f"cannot read {self._file}: {error}; name Mem0's history database "
                    "(by default ~/.mem0/history.db)"
                ) from error


class Mem0Reader:
    """An open history database."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def of(self, memory_id: str) -> list[Happened]:
        """What happened to a memory, oldest first."""
        rows = self._conn.execute(
            f"SELECT {_COLUMNS} FROM temp.place JOIN main.history h ON h.rowid = place.at "
            "WHERE place.memory_id = ? ORDER BY place.at",
            (memory_id,),
        )
        return [
            Happened(event, old, new, created if event == "ADD" else updated or created)
            for event, old, new, created, updated in rows
        ]
