"""From what a client sends to the texts that are stored, and the checks on what goes with them.

Invariant: what leaves this module can be held by every store, tokenizer and JSON encoder.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from inferscale.protocol.memory import MAX_ID_CHARS, SCOPE_IDS, Message, check_text
from inferscale_sidecar.core import Moment, Scope
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.store.records import Draft, IdempotencyKey, Vector

MAX_MESSAGES = 10_000
MAX_METADATA_BYTES = 16_384
MAX_METADATA_DEPTH = 16
MAX_ROLE_CHARS = 64
MAX_KEY_CHARS = 256
_TEXT_PARTS = ("text", "input_text", "output_text")


@dataclass(frozen=True)
class Note:
    """One text to remember, and who said it."""

    text: str
    role: str | None = None
    actor_id: str | None = None
    said_at: datetime | None = None
    expires_at: datetime | None = None


def draft_of(note: Note, vector: Vector) -> Draft:
    """What the store keeps of a note; `vector` is the embedding of its text."""
    return Draft(note.text, vector, note.role, note.actor_id, note.said_at, note.expires_at)


def read_notes(
    messages: str | Message | Sequence[Message], *, keep_system: bool = False
) -> list[Note]:
    """The texts worth keeping, in order, verbatim.

    System messages (unless `keep_system`) and messages without text are skipped; the text parts of
    multimodal content are joined by newlines.

    Raises:
        InvalidInput: too many messages, or a text that cannot be stored; all are refused then.
    """
    if isinstance(messages, str):
        messages = [Message(role="user", content=messages)]
    elif isinstance(messages, Message):
        messages = [messages]
    notes = [
        _read(message, f"messages[{at}]")
        for at, message in enumerate(messages)
        if keep_system or message.role != "system"
    ]
    kept = [note for note in notes if note is not None]
    if len(kept) > MAX_MESSAGES:
        raise InvalidInput(
            f"{len(kept)} messages in one request, the limit is {MAX_MESSAGES}; send them in "
            "several requests",
            param="messages",
        )
    return kept


def _read(message: Message, where: str) -> Note | None:
    text = _text_of(message, where)
    if not text.strip():
        return None
    try:
        check_text(text)
    except ValueError as error:
        raise InvalidInput(f"{where}: {error}", param=where) from error
    return Note(
        text=text,
        role=_label(message.role, f"{where}.role", MAX_ROLE_CHARS),
        actor_id=_label(message.name, f"{where}.name", MAX_ID_CHARS),
        said_at=message.timestamp,
    )


def _text_of(message: Message, where: str) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    parts = [part.get("text") for part in message.content if part.get("type") in _TEXT_PARTS]
    for part in parts:
        if not isinstance(part, str):
            raise InvalidInput(
                f"{where}: a content part of type text has no string in its field text",
                param=where,
            )
    return "\n".join(part for part in parts if part)


def _label(value: str | None, where: str, limit: int) -> str | None:
    if value is None:
        return None
    if len(value) > limit or not value.isprintable():
        raise InvalidInput(
            f"{where} must be at most {limit} printable characters, it has {len(value)}",
            param=where,
        )
    return value or None


def check_metadata(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata if it can be stored and given back; an empty object counts as none.

    Raises:
        InvalidInput: not JSON (NaN, lone surrogates), NUL, too deep, or too large.
    """
    if not metadata:
        return None
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        size_bytes = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "metadata must be JSON: strings of valid Unicode, finite numbers, booleans, nulls, "
            "lists and objects",
            param="metadata",
        ) from error
    if size_bytes > MAX_METADATA_BYTES:
        raise InvalidInput(
            f"metadata is {size_bytes} bytes as JSON, the limit is {MAX_METADATA_BYTES}; keep "
            "large data elsewhere and store a reference",
            param="metadata",
        )
    _check_value(metadata, depth=0)
    return metadata


def _check_value(value: Any, depth: int) -> None:
    if depth > MAX_METADATA_DEPTH:
        raise InvalidInput(
            f"metadata is nested more than {MAX_METADATA_DEPTH} deep; flatten it", param="metadata"
        )
    if isinstance(value, str) and "\x00" in value:
        raise InvalidInput("metadata contains NUL (U+0000); remove it", param="metadata")
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for each in value:
            _check_value(each, depth + 1)


def need_scope(scope: Scope) -> None:
    """Raises InvalidInput for a scope without any id."""
    if scope == Scope():
        raise InvalidInput(f"at least one of {', '.join(SCOPE_IDS)} is required")


def read_moment(now: datetime, *, show_expired: bool, as_of: datetime | None) -> Moment:
    """What a request reads; a time to come is read as the present."""
    return Moment(now, show_expired, None if as_of is None or as_of >= now else as_of)


def end_of_life(
    expires_at: datetime | None, ttl_s: int | None, *, now: datetime
) -> datetime | None:
    """When what is written now will expire; None: never.

    Raises:
        InvalidInput: that time has come already.
    """
    if ttl_s is not None:
        return now + timedelta(seconds=ttl_s)
    if expires_at is not None and expires_at <= now:
        raise InvalidInput(
            f"expires_at is {expires_at.isoformat()}, which is not in the future "
            f"(it is {now.isoformat()}); what has expired is not kept: delete it, or leave it out",
            param="expires_at",
        )
    return expires_at


def check_key(key: str | None) -> str | None:
    """The client's name for a request, if it gave one.

    Raises:
        InvalidInput: it is empty, long, or not printable ASCII.
    """
    if key is not None and not (
        0 < len(key) <= MAX_KEY_CHARS and key.isascii() and key.isprintable()
    ):
        raise InvalidInput(
            f"Idempotency-Key must be 1 to {MAX_KEY_CHARS} printable ASCII characters",
            param="Idempotency-Key",
        )
    return key


def name_request(
    key: str | None,
    scope: Scope,
    notes: Sequence[Note],
    metadata: dict[str, Any] | None,
    *,
    infer: bool = False,
    lifetime: datetime | int | None = None,
) -> IdempotencyKey | None:
    """The client's name for an addition, with the digest of all that it depends on.

    Raises:
        InvalidInput: the key is empty, long, or not printable ASCII.
    """
    key = check_key(key)
    if key is None:
        return None
    asked: list[Any] = [scope.key, [[n.text, n.role, n.actor_id] for n in notes], metadata]
    if infer:
        asked.append("infer")
    if lifetime is not None:
        asked.append(str(lifetime))
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return IdempotencyKey(key, digest)
