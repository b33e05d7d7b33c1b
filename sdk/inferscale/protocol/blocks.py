"""Requests and responses of pinned blocks (`/v1/blocks`): text that is part of every composition.

A block is attached to scopes; it is shown in each request whose ids include all ids of one of them.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from inferscale.protocol.memory import Scope, Wire
from inferscale.protocol.values import size_of

MAX_LABEL_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_000
DEFAULT_BLOCK_LIMIT = 5_000
MAX_BLOCK_LIMIT = 100_000
_LABEL = re.compile(r"\w[\w./-]*")


def _check_label(value: str) -> str:
    if len(value) > MAX_LABEL_CHARS or not _LABEL.fullmatch(value):
        raise ValueError(
            f"a label has 1 to {MAX_LABEL_CHARS} letters, digits, '_', '-', '.' or '/', and begins "
            "with a letter, a digit or '_'"
        )
    return value


def _check_value(value: str) -> str:
    size_of(value)
    if len(value) > MAX_BLOCK_LIMIT:
        raise ValueError(
            f"the value has {len(value)} characters, no block may have more than {MAX_BLOCK_LIMIT};"
            " keep what need not be in every request as memories"
        )
    return value


def _check_not_empty(value: str) -> str:
    if not value:
        raise ValueError("the text is empty")
    return _check_value(value)


def _check_description(value: str) -> str:
    size_of(value)
    if len(value) > MAX_DESCRIPTION_CHARS:
        raise ValueError(
            f"the description has {len(value)} characters, the limit is {MAX_DESCRIPTION_CHARS}"
        )
    return value


Label = Annotated[str, AfterValidator(_check_label)]
BlockValue = Annotated[str, AfterValidator(_check_value)]
BlockText = Annotated[str, AfterValidator(_check_not_empty)]
Description = Annotated[str, AfterValidator(_check_description)]
BlockLimit = Annotated[int, Field(ge=1, le=MAX_BLOCK_LIMIT)]
Version = Annotated[int, Field(ge=1)]


class CreateBlockRequest(Scope):
    """`POST /v1/blocks`. Without ids the block is shown nowhere until it is attached."""

    label: Label
    value: BlockValue = ""
    description: Description | None = None
    limit: BlockLimit = DEFAULT_BLOCK_LIMIT
    """Most characters that the value may have."""
    read_only: bool = False
    """True: it can be changed with PATCH, but not by the edits that agents make."""
    metadata: dict[str, Any] | None = None


class UpdateBlockRequest(Wire):
    """`PATCH /v1/blocks/{id}`. Fields left out stay as they are; null removes what may be absent.

    `if_version`: change nothing unless this is still the version; 409 otherwise.
    """

    label: Label | None = None
    value: BlockValue | None = None
    description: Description | None = None
    limit: BlockLimit | None = None
    read_only: bool | None = None
    metadata: dict[str, Any] | None = None
    if_version: Version | None = None


class AppendRequest(Wire):
    """`POST /v1/blocks/{id}/append`: the text goes on a new line at the end."""

    text: BlockText
    if_version: Version | None = None


class ReplaceRequest(Wire):
    """`POST /v1/blocks/{id}/replace`: every occurrence of `old` becomes `new`."""

    old: BlockText
    new: BlockValue
    if_version: Version | None = None


class Block(BaseModel):
    """One block as the API returns it. `version` counts changes of what is shown."""

    id: str
    label: str
    value: str
    description: str | None = None
    limit: int
    read_only: bool = False
    metadata: dict[str, Any] | None = None
    version: int = 1
    scopes: list[Scope] = []
    """What it is attached to."""
    created_at: datetime
    updated_at: datetime


class BlockListResponse(BaseModel):
    """A page in creation order, oldest first. `next_cursor` is None on the last page."""

    results: list[Block]
    total: int
    next_cursor: str | None = None


class BlockHistoryEntry(BaseModel):
    block_id: str
    version: int
    event: Literal["ADD", "UPDATE", "DELETE"]
    label: str | None = None
    value: str | None = None
    description: str | None = None
    created_at: datetime


class BlockHistoryResponse(BaseModel):
    results: list[BlockHistoryEntry]
