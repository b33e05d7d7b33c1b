"""Memories at a moment, which is the present unless an earlier one is asked for.

Owns what "was there then" means in SQL. Invariant: of the past only what is still kept is shown:
what was deleted or has expired since is gone at every moment, and what is not versioned (metadata,
the end of a life) is as it is now.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, func, literal, or_, select

from inferscale_sidecar.core import Memory, Moment
from inferscale_sidecar.store.records import SEARCHABLE, IndexRow
from inferscale_sidecar.store.rows import (
    is_searchable,
    is_there,
    select_index_rows,
    select_memories,
    to_index_row,
    to_memory,
)
from inferscale_sidecar.store.schema import memories, memory_versions

_then = memory_versions.alias("then_versions")
_TEXTS = ("ADD", "UPDATE")
_ENDS = ("REPLACE", "EXTRACT")


def was_there(at: Moment) -> ColumnElement[bool]:
    """Condition on `memories`: it existed, listed or only kept."""
    if at.as_of is None:
        return is_there(at)
    return is_there(at) & _happened(_TEXTS, memory_versions.c.created_at <= at.as_of)


def was_found(at: Moment) -> ColumnElement[bool]:
    """Condition on `memories`: it was listed and found."""
    if at.as_of is None:
        return is_searchable(at)
    return was_there(at) & _was_searchable(at.as_of)


def select_memories_at(at: Moment, fingerprint: str | None) -> Select[Any]:
    """All memories as they were, for `to_memory_at`; the caller adds the conditions."""
    query = select_memories(fingerprint)
    return query if at.as_of is None else _with_version(query, at.as_of)


def select_index_rows_at(at: Moment) -> Select[Any]:
    """All memories with their vectors, for `to_index_row_at`; the caller adds the conditions."""
    query = select_index_rows()
    return query if at.as_of is None else _with_version(query, at.as_of)


def to_memory_at(row: Row[Any], at: Moment) -> Memory:
    """From a row of `select_memories_at`. KV: of what is found now, in its last version."""
    memory = to_memory(row)
    if at.as_of is None:
        return memory
    injectable = memory.status in SEARCHABLE and memory.version == row.then_version
    if row.was_searchable:
        memory = replace(memory, status="live", superseded_by=None)
    return replace(
        memory,
        text=row.then_text,
        version=row.then_version,
        updated_at=row.then_at,
        kv_state=memory.kv_state if injectable else "off",
    )


def to_index_row_at(row: Row[Any], at: Moment) -> IndexRow:
    """From a row of `select_index_rows_at`. The vector of an earlier text is empty: only the last
    one is kept."""
    found = to_index_row(row)
    if at.as_of is None:
        return found
    vector = found.vector if found.version == row.then_version else found.vector[:0]
    return replace(
        found,
        text=row.then_text,
        version=row.then_version,
        updated_at=row.then_at,
        vector=vector,
    )


def _with_version(query: Select[Any], as_of: datetime) -> Select[Any]:
    newest = (
        select(func.max(memory_versions.c.version))
        .where(memory_versions.c.memory_id == memories.c.id)
        .where(memory_versions.c.event.in_(_TEXTS), memory_versions.c.created_at <= as_of)
        .scalar_subquery()
    )
    searchable = case((_was_searchable(as_of), literal(1)), else_=literal(0))
    return query.add_columns(
        _then.c.text.label("then_text"),
        _then.c.version.label("then_version"),
        _then.c.created_at.label("then_at"),
        searchable.label("was_searchable"),
    ).join(
        _then,
        and_(
            _then.c.memory_id == memories.c.id,
            _then.c.version == newest,
            _then.c.event.in_(_TEXTS),
            _then.c.text.is_not(None),
        ),
    )


def _was_searchable(as_of: datetime) -> ColumnElement[bool]:
    """It still is, or ceased to be only later."""
    return or_(
        memories.c.status.in_(SEARCHABLE), _happened(_ENDS, memory_versions.c.created_at > as_of)
    )


def _happened(events: tuple[str, ...], when: ColumnElement[bool]) -> ColumnElement[bool]:
    its = select(memory_versions.c.memory_id).where(
        memory_versions.c.memory_id == memories.c.id, memory_versions.c.event.in_(events), when
    )
    return its.correlate(memories).exists()
