"""A local Qdrant folder, as qdrant-client writes it: one SQLite file a collection, points pickled.

Needs no qdrant-client, takes no lock, and so can be read while its owner runs.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from inferscale_sidecar.errors import ConfigError, InvalidInput
from inferscale_sidecar.foreign.points import Point
from inferscale_sidecar.foreign.unpickle import Bag, read_pickle


class QdrantPoints:
    """Points of one collection.

    Raises:
        ConfigError: there is no such collection.
    """

    def __init__(self, folder: Path, collection: str) -> None:
        self._file = folder / "collection" / collection / "storage.sqlite"
        if not self._file.is_file():
            known = sorted(path.parent.name for path in folder.glob("collection/*/storage.sqlite"))
            raise ConfigError(
                f"no collection {collection!r} in {folder}; there are: {', '.join(known) or 'none'}"
            )

    def __iter__(self) -> Iterator[Point]:
        with closing(read_only(self._file)) as conn:
            try:
                # Of several rows for one point the last one counts, as for qdrant-client.
                seen: set[str] = set()
                for (content,) in conn.execute("SELECT point FROM points ORDER BY rowid DESC"):
                    point = _to_point(content)
                    if point.id not in seen:
                        seen.add(point.id)
                        yield point
            except sqlite3.Error as error:
                raise ConfigError(f"cannot read {self._file}: {error}; is it a Qdrant?") from error


def read_only(file: Path) -> sqlite3.Connection:
    """A SQLite file that must be there, and is not changed. Raises ConfigError."""
    try:
        return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise ConfigError(f"cannot open {file}: {error}; check the path") from error


def _to_point(content: bytes) -> Point:
    found = read_pickle(content, bags="qdrant_client")
    if not isinstance(found, Bag) or not isinstance(found.fields.get("payload"), dict):
        raise InvalidInput("a row of the Qdrant folder holds no point with a payload")
    return Point(str(found.fields.get("id")), found.fields["payload"])
