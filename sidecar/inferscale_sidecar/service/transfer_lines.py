"""Lines of an export: from memories to JSON and back, with every check that an addition gets.

Invariant: reading what was written gives the same again; what cannot be stored is refused.
"""

import base64
import binascii
import json
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.message import check_metadata, need_scope
from inferscale_sidecar.store.records import Vector
from inferscale_sidecar.store.transfer_port import Link, MovedMemory, PastVersion

_MAX_REASONS = 3


def write_line(line: BaseModel) -> bytes:
    """One line, without what is not set."""
    dumped = line.model_dump(mode="json")
    fields = {"type": dumped["type"]} | {k: v for k, v in dumped.items() if v is not None}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def memory_line(moved: MovedMemory) -> wire.MemoryLine:
    """A memory as a line; its texts are in the store, so nothing is checked again."""
    memory = moved.memory
    versions = [
        wire.VersionLine.model_construct(
            version=past.version, event=past.event, memory=past.text, created_at=past.created_at
        )
        for past in moved.versions
    ]
    return wire.MemoryLine.model_construct(
        **memory.scope.ids,
        id=memory.id,
        memory=memory.text,
        version=memory.version,
        kind=memory.kind,
        status="live" if memory.status == "pending" else memory.status,
        role=memory.role,
        actor_id=memory.actor_id,
        metadata=memory.metadata,
        said_at=memory.said_at,
        expires_at=memory.expires_at,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        versions=versions,
        vector=None if moved.vector is None else write_vector(moved.vector),
    )


def read_line(line: bytes) -> wire.Line:
    """Raises InvalidInput for what is no line of an export."""
    try:
        return wire.LINE.validate_json(line)
    except ValidationError as error:
        raise InvalidInput(reasons(error, skip=1)) from error


def to_moved(line: wire.MemoryLine, *, tenant_id: str = "") -> MovedMemory:
    """Raises InvalidInput for a memory that the service would not store."""
    scope = Scope.of(line)
    need_scope(scope)
    check_label(line.role, "role")
    check_label(line.actor_id, "actor_id")
    _check_history(line)
    memory = Memory(
        id=line.id,
        tenant_id=tenant_id,
        scope=scope,
        text=line.memory,
        version=line.version,
        created_at=line.created_at,
        updated_at=line.updated_at,
        role=line.role or None,
        actor_id=line.actor_id or None,
        metadata=check_metadata(line.metadata),
        status=line.status,
        kind=line.kind,
        said_at=line.said_at,
        expires_at=line.expires_at,
    )
    versions = [PastVersion(v.version, v.event, v.memory, v.created_at) for v in line.versions]
    return MovedMemory(
        memory, tuple(versions), None if line.vector is None else read_vector(line.vector)
    )


def to_link(line: wire.LinkLine) -> Link:
    """A link as the store takes it."""
    return Link(line.kind, line.memory_id, line.target_id)


def check_label(value: str | None, name: str) -> None:
    """Raises InvalidInput for a role or name that cannot be shown."""
    if value is not None and not value.isprintable():
        raise InvalidInput(f"{name} {value!a} has characters that cannot be printed", param=name)


def _check_history(line: wire.MemoryLine) -> None:
    events = [(past.version, past.event) for past in line.versions]
    if len(set(events)) != len(events):
        raise InvalidInput("versions holds the same version and event twice", param="versions")
    if max(events)[0] > line.version:
        raise InvalidInput(f"versions goes beyond version {line.version}", param="versions")
    if not any(
        past.version == line.version and past.memory == line.memory for past in line.versions
    ):
        raise InvalidInput(
            f"versions has no version {line.version} with the text in memory", param="versions"
        )


def write_vector(vector: Vector) -> str:
    """Base64 of float32, little endian."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def read_vector(text: str) -> Vector:
    """What `write_vector` made. Raises InvalidInput for what is no embedding."""
    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("vector is not base64 of float32 numbers", param="vector") from error
    length = float(np.linalg.norm(vector)) if np.isfinite(vector).all() else 0.0
    if abs(length - 1) > 1e-3:
        raise InvalidInput(f"vector has length {length:g}, it must be 1", param="vector")
    return vector


def reasons(error: ValidationError, *, skip: int) -> str:
    """What is wrong with which fields, without their values.

    Args:
        skip: so many parts of the places are left out: the reader's own.
    """
    found: list[Any] = error.errors(include_url=False, include_input=False)
    lines = [_reason(each, skip) for each in found[:_MAX_REASONS]]
    more = len(found) - len(lines)
    return ", ".join([*lines, *([f"and {more} more"] if more else [])])


def _reason(found: Any, skip: int) -> str:
    name = ".".join(str(part) for part in found["loc"][skip:])
    reason = str(found["msg"]).removeprefix("Value error, ")
    return f"{name}: {reason}" if name else reason
