"""Deletions and their receipts: of a memory, of what passes a filter, of a whole scope."""

from typing import Any

from pydantic import BaseModel, Field

from inferscale.protocol.scope import Scope


class DeleteRequest(Scope):
    """`POST /v1/memories/delete`: what is listed in the scope and passes the filter."""

    filters: dict[str, Any] = Field(json_schema_extra={"minProperties": 1})
    dry_run: bool = False
    """True: remove nothing, and say what would go."""


class DeleteResponse(BaseModel):
    """The receipt: `deleted` memories, `kv_items` encoded items dropped from the bank, `sources`
    messages that the memories came from, `embeddings`, and `handle_items` lines of handles.

    With a whole scope go its `threads` with their `messages`, and pinned `blocks`; one that is
    attached elsewhere too is only detached (`detached_blocks`). With a user and no
    other id given, go the `documents`, too."""

    deleted: int
    kv_items: int = 0
    sources: int = 0
    embeddings: int = 0
    handle_items: int = 0
    blocks: int = 0
    detached_blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0


class DeleteWhereResponse(DeleteResponse):
    """`matched` memories and their first 1,000 `ids`. After a dry run all other counts are 0."""

    matched: int
    ids: list[str]
    dry_run: bool
