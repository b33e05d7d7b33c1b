"""What lies in a vector store: points with a payload, and the choice of the reader for a place."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from inferscale_sidecar.errors import ConfigError


@dataclass(frozen=True)
class Point:
    """An id and what is stored with it. Vectors are left where they are."""

    id: str
    payload: dict[str, Any]


class Points(Protocol):
    """All points of a collection, in any order; can be read again."""

    def __iter__(self) -> Iterator[Point]: ...


def open_points(place: str, collection: str) -> Points:
    """The collection at a place.

    Args:
        place: a folder of a local Qdrant or of FAISS, the URL of a Qdrant server, or of a
            PostgreSQL database with pgvector.

    Raises:
        ConfigError: there is no such collection, or it cannot be read.
    """
    if place.startswith(("postgresql://", "postgres://")):
        from inferscale_sidecar.foreign.pgvector import PgvectorPoints

        return PgvectorPoints(place, collection)
    if place.startswith(("http://", "https://")):
        from inferscale_sidecar.foreign.qdrant_server import QdrantServerPoints

        return QdrantServerPoints(place, collection)
    from inferscale_sidecar.foreign.faiss_folder import FaissPoints
    from inferscale_sidecar.foreign.qdrant_folder import QdrantPoints

    folder = Path(place).expanduser()
    if (folder / "meta.json").exists() or (folder / "collection").is_dir():
        return QdrantPoints(folder, collection)
    if list(folder.glob("*.faiss")):
        return FaissPoints(folder, collection)
    raise ConfigError(
        f"{place} is no vector store that can be read; name the folder of a local Qdrant (it holds "
        "meta.json) or of FAISS (it holds *.faiss), or a URL (http://… for a Qdrant server, "
        "postgresql://… for pgvector)"
    )
