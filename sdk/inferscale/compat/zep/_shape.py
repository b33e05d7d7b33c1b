"""The SDK's records → Zep's types; and metadata that holds what our memories have no field for.

Owns the reserved keys of metadata. Invariant: they never show in the metadata that Zep's users see.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from inferscale import InvalidArgumentError, MemoryRecord, ThreadMessage
from inferscale import Thread as ThreadRecord
from inferscale.compat.zep._scope import graph_uuid_of
from inferscale.compat.zep.types import EntityEdge, Episode, Message, Thread

_PREFIX = "zep_"
KIND = f"{_PREFIX}kind"
_SAID_AT = f"{_PREFIX}created_at"
EDGE_KEYS = ("valid_at", "invalid_at", "expired_at", "source_node_name", "target_node_name")
_NAME = "fact_name"
_EPISODE_KEYS = ("source", "source_description", "document_id")


def metadata_of(own: Mapping[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """The caller's metadata, and fields that are given under reserved names.

    Raises:
        InvalidArgumentError: the caller's metadata has a reserved name.
    """
    if taken := [name for name in own or {} if str(name).startswith(_PREFIX)]:
        raise InvalidArgumentError(f"metadata names that begin with {_PREFIX} are ours: {taken}.")
    held = {f"{_PREFIX}{name}": value for name, value in fields.items() if value is not None}
    return {**(own or {}), **held}


def user_metadata(record: MemoryRecord | ThreadMessage) -> dict[str, Any] | None:
    """The caller's own metadata."""
    own = {k: v for k, v in (record.metadata or {}).items() if not k.startswith(_PREFIX)}
    return own or None


def thread(record: ThreadRecord) -> Thread:
    """A thread of a user, under all of its names."""
    return Thread(
        thread_id=record.id,
        uuid_=record.id,
        user_id=record.user_id,
        user_uuid=record.user_id,
        graph_uuid=graph_uuid_of(record.user_id),
        created_at=record["created_at"],
    )


def message(record: ThreadMessage) -> Message:
    """A message of a thread."""
    return Message(
        uuid_=record.id,
        content=record.content,
        role=record.role,
        name=record.name,
        created_at=_created_at(record),
        metadata=user_metadata(record),
        processed=True,
    )


def edge(record: MemoryRecord) -> EntityEdge:
    """A memory as a fact."""
    return EntityEdge(
        uuid_=record.id,
        fact=record.memory,
        name=(record.metadata or {}).get(f"{_PREFIX}{_NAME}"),
        created_at=_created_at(record),
        attributes=user_metadata(record),
        **_scores(record),
        **held(record, EDGE_KEYS),
    )


def episode(record: MemoryRecord) -> Episode:
    """A memory as a piece of data that was added."""
    return Episode(
        uuid_=record.id,
        content=record.memory,
        created_at=_created_at(record),
        metadata=user_metadata(record),
        role=record.actor_id,
        role_type=record.role,
        thread_id=record.run_id,
        **_scores(record),
        **held(record, _EPISODE_KEYS),
    )


def _scores(record: MemoryRecord) -> dict[str, Any]:
    score = record.get("score")
    return {"score": score, "relevance": score}


def held(record: MemoryRecord | None, names: Iterable[str]) -> dict[str, Any]:
    """Fields that are kept in reserved metadata."""
    metadata = (record.metadata or {}) if record else {}
    return {name: metadata.get(f"{_PREFIX}{name}") for name in names}


def _created_at(record: MemoryRecord | ThreadMessage) -> str:
    return str((record.metadata or {}).get(_SAID_AT) or record["created_at"])
