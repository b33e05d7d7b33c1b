"""Adding texts and facts to a scope, with what our memories have no field for in metadata."""

from collections.abc import Mapping
from typing import Any

from inferscale import InvalidArgumentError, MemoryRecord, NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse
from inferscale.compat.zep import _shape
from inferscale.compat.zep.types import EntityEdge, Episode


def add_data(
    scope: Mapping[str, str],
    data: str,
    kind: str | None,
    *,
    created_at: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    **fields: Any,
) -> Flow[Episode]:
    """Remember a text word for word, and what came with it as metadata."""
    if kind not in (None, "text", "message"):
        refuse(f"type={kind!r}", "text is remembered as it is; write its facts as sentences")
    held = _shape.metadata_of(metadata, created_at=created_at, source=kind, **fields)
    added = yield from call(
        "add", data, **scope, metadata=held, infer=False, idempotency_key=idempotency_key
    )
    return _shape.episode((yield from _first(added, held)))


def add_fact(
    scope: Mapping[str, str], fact: str, metadata: Mapping[str, Any], **fields: Any
) -> Flow[EntityEdge]:
    """Remember a fact word for word, and what came with it as metadata."""
    held = _shape.metadata_of(metadata, **fields)
    added = yield from call("add", fact, **scope, metadata=held, infer=False)
    return _shape.edge((yield from _first(added, held)))


def _first(added: Any, metadata: Mapping[str, Any]) -> Flow[MemoryRecord]:
    """The memory that an addition made, or found there already and now describes."""
    if not added.results:
        raise InvalidArgumentError("there is nothing to remember: the text is blank.")
    memory_id = added.results[0].id
    record: MemoryRecord | None = yield from call("get", memory_id)
    if record is None:
        raise NotFoundError("the memory was deleted while it was being added.")
    old = record.metadata or {}
    if any(old.get(name) != value for name, value in metadata.items()):
        record = yield from call("update", memory_id, metadata={**old, **metadata})
    return record
