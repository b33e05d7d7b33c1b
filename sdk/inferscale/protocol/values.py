"""The values that memory requests are made of: ids, texts, states, and what each may be."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

SCOPE_IDS = ("user_id", "agent_id", "run_id", "app_id")
"""Names of the ids that say whose a memory is. What goes through all of them goes through this."""

MAX_ID_CHARS = 256
MAX_TEXT_BYTES = 65_536
MAX_RECALL_ITEMS = 1_000

KvState = Literal["queued", "building", "ready", "failed", "off"]
"""Where an item's KV stands. Text is served in every state; only `ready` can be injected."""

MemoryKind = Literal["memory", "fact", "turn"]
"""Stored verbatim, extracted from messages, or a message that facts are extracted from."""

MemoryStatus = Literal["live", "pending", "source", "superseded"]
"""`pending`: a message whose facts are being extracted; it is found like a `live` memory.
`source`: a message whose facts are stored. `superseded`: a fact that a newer one made untrue. Both
are kept, and read by id, but no longer found."""

AddStatus = Literal["stored", "extracted", "raw", "pending"]
"""`raw`: extraction failed, the message itself is stored; `pending`: its facts are yet to come."""

SearchMode = Literal["hybrid", "dense", "keyword"]
"""By meaning and shared words, by meaning only, or only what shares a word."""

ExtractionState = Literal["pending", "done", "failed"]


def _check_id(value: str) -> str:
    """An id names exactly one scope: no wildcard, no blank, nothing invisible."""
    if not value or value == "*" or any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError(
            f"id {value!r} must be non-empty, without whitespace or control characters, and not "
            "'*': ids are not patterns"
        )
    return value


def size_of(value: str) -> int:
    """Bytes of a text that every store and tokenizer can hold: valid Unicode, no NUL."""
    if "\x00" in value:
        raise ValueError("text contains NUL (U+0000); remove it before storing")
    try:
        return len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text contains a lone surrogate at index {error.start}; send valid Unicode"
        ) from error


def check_text(value: str) -> str:
    """Text that can be a memory: valid Unicode, no NUL, not too long, not blank."""
    size_bytes = size_of(value)
    if size_bytes > MAX_TEXT_BYTES:
        raise ValueError(
            f"text is {size_bytes} bytes, the limit is {MAX_TEXT_BYTES}; "
            "split it into several memories"
        )
    if not value.strip():
        raise ValueError("text is empty or blank")
    return value


# What JSON Schema can say of the checks; they say more.
_ID_SCHEMA = {"minLength": 1, "pattern": r"^(?!\*$)[^\s\x00-\x1f\x7f]+$"}
_TEXT_SCHEMA = {"minLength": 1, "pattern": r"^[^\x00]*[^\s\x00][^\x00]*$"}

Id = Annotated[
    str,
    Field(max_length=MAX_ID_CHARS, json_schema_extra=_ID_SCHEMA),
    AfterValidator(_check_id),
]
Text = Annotated[
    str,
    Field(json_schema_extra=_TEXT_SCHEMA),
    AfterValidator(check_text),
]
MaxTokens = Annotated[int, Field(ge=1)]
"""At most so many tokens of memory in the prompt: pinned blocks first, then the best items."""


class HandleBlock(BaseModel):
    """A pinned block in a composition, in the version in which it is shown there."""

    id: str
    version: int
    label: str
    value: str
