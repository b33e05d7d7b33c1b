"""Filters as trees, and the part of them that a database can decide.

Owns the shape of a filter and its translation; what an operator means is said in `service.filter`,
and the SQL here says exactly the same or nothing at all. Fields that are no columns are metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, false, not_, or_

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.store.schema import memories

_LABELS = (*SCOPE_IDS, "role", "actor_id")
_TIMES = ("created_at", "updated_at")
_MAX_LIST = 500


@dataclass(frozen=True)
class FieldTest:
    """A field compared with a value by one of Mem0's operators."""

    field: str
    operator: str
    value: Any


@dataclass(frozen=True)
class AllOf:
    """Every part holds."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class NoneOf:
    """No part holds."""

    parts: tuple["Condition", ...]


Condition = FieldTest | AllOf | AnyOf | NoneOf


def to_sql(condition: Condition) -> ColumnElement[bool] | None:
    """The condition on `memories`, never unknown (NULL); None if the database cannot decide it."""
    if isinstance(condition, FieldTest):
        if condition.field in _LABELS:
            return _label(condition.field, condition.operator, condition.value)
        return _time(condition) if condition.field in _TIMES else None
    parts = [to_sql(part) for part in condition.parts]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if isinstance(condition, AllOf):
        return and_(*known)
    return or_(*known) if isinstance(condition, AnyOf) else not_(or_(*known))


def _label(field: str, operator: str, value: Any) -> ColumnElement[bool] | None:
    values: Sequence[Any] = value if operator in ("in", "nin") else [value]
    if operator not in ("eq", "ne", "in", "nin") or len(values) > _MAX_LIST:
        return None
    column = memories.c[field]
    texts = [each for each in values if isinstance(each, str)]
    equal: list[ColumnElement[bool]] = [and_(column.is_not(None), column.in_(texts))]
    if None in values:
        equal.append(column.is_(None))
    return or_(*equal) if operator in ("eq", "in") else not_(or_(*equal))


def _time(test: FieldTest) -> ColumnElement[bool] | None:
    column = memories.c[test.field]
    compared = {
        "gt": column.__gt__,
        "gte": column.__ge__,
        "lt": column.__lt__,
        "lte": column.__le__,
    }
    if test.operator not in compared:
        return None
    if not isinstance(test.value, str):
        return false()  # a time and a number have no order
    try:
        time = datetime.fromisoformat(test.value)
    except ValueError:
        return None
    return compared[test.operator](time.replace(tzinfo=UTC) if time.tzinfo is None else time)
