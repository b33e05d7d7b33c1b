"""A collection of mem0's pgvector store: a table with `id` and `payload`, in one snapshot."""

from collections.abc import Iterator

from inferscale_sidecar.errors import ConfigError, Unsupported
from inferscale_sidecar.foreign.points import Point

PAGE = 500


class PgvectorPoints:
    """Points of one collection. Needs psycopg."""

    def __init__(self, url: str, collection: str) -> None:
        self._url, self._collection = url, collection

    def __iter__(self) -> Iterator[Point]:
        try:
            import psycopg
            from psycopg import sql
        except ImportError as error:
            raise Unsupported(
                "reading a PostgreSQL database needs psycopg; install 'inferscale-memory[postgres]'"
            ) from error
        query = sql.SQL("SELECT id::text, payload FROM {}").format(sql.Identifier(self._collection))
        try:
            with psycopg.connect(self._url) as conn, conn.cursor(name="points") as cursor:
                conn.read_only = True
                cursor.itersize = PAGE
                for memory_id, payload in cursor.execute(query):
                    yield Point(memory_id, payload if isinstance(payload, dict) else {})
        except psycopg.Error as error:
            raise ConfigError(
                f"cannot read the table {self._collection!r}: {str(error).strip()}; check the URL "
                "and --collection"
            ) from error
