"""Types of the columns in `schema`, and how constraints are named."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.errors import InvalidInput


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes on every database; SQLite itself keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}: the store keeps UTC, pass an aware one")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class num_bytes(GenericFunction[int]):
    """Length of a text in bytes of UTF-8."""

    type = Integer()
    inherit_cache = True


@compiles(num_bytes)
def _num_bytes(element: num_bytes, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length({compiler.process(element.clauses, **options)})"


@compiles(num_bytes, "sqlite")
def _num_bytes_on_sqlite(element: num_bytes, compiler: SQLCompiler, **options: Any) -> str:
    # octet_length() came with 3.43; length() of a text counts characters.
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


class PlainText(TypeDecorator[str]):
    """Text without NUL, which PostgreSQL cannot hold: refused on every database alike."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return _without_nul(value)


class PlainString(TypeDecorator[str]):
    """The same with a limit on its length."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return _without_nul(value)


def _without_nul(value: str | None) -> str | None:
    if value is not None and "\x00" in value:
        raise InvalidInput("text contains NUL (U+0000), which cannot be stored; remove it")
    return value


class Remark(TypeDecorator[str]):
    """What others say of a failure: kept readable, whatever bytes it was made of."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


# SQLite only numbers rows by itself when the key is spelled INTEGER.
RowNumber = BigInteger().with_variant(Integer, "sqlite")
ID = PlainString(64)
FOREIGN_ID = PlainString(256)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def scope_columns() -> list[Column[str]]:
    """The ids of a scope, as columns of one more table."""
    return [Column(name, FOREIGN_ID) for name in SCOPE_IDS]
