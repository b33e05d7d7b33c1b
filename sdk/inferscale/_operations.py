"""One pure function per memory endpoint: arguments → `Operation`.

Owns paths, bodies and which requests may be repeated. Both clients are shells over these functions.
All of them raise InvalidArgumentError for arguments that cannot be honoured.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import httpx

from inferscale._dialect import Scope, reject_unsupported, scope_ids, split_filters
from inferscale._handle import MemoryHandle, create_handle
from inferscale._listing import Time, reading
from inferscale._messages import Messages, memory_messages
from inferscale._operation import Operation, reads
from inferscale._results import (
    AddResult,
    BuildStatus,
    DeleteResult,
    DeleteWhereResult,
    HistoryRecord,
    MemoryRecord,
    SearchResult,
    UpdateResult,
)
from inferscale._validate import encode_model, path_id
from inferscale.errors import InvalidArgumentError
from inferscale.protocol import memory as wire

NO_RANKING: Mapping[str, Any] = {}
"""The sidecar's own way to rank hits."""


def check_key(key: str | None) -> str | None:
    """The caller's name for an addition. Raises InvalidArgumentError if a header cannot hold it."""
    if key and not (key.isascii() and key.isprintable()):
        raise InvalidArgumentError(f"idempotency_key is {key!a}; it must be printable ASCII.")
    return key


def add(
    messages: Messages,
    *,
    scope: Scope,
    metadata: Mapping[str, Any] | None,
    infer: bool | None,
    async_mode: bool | None = None,
    expires_at: datetime | str | None = None,
    ttl_s: int | None = None,
    idempotency_key: str | None,
    extra: Mapping[str, Any],
) -> Operation[AddResult]:
    reject_unsupported("add", extra)
    fields = {
        **scope_ids(scope),
        "messages": memory_messages(messages),
        "metadata": metadata,
        "infer": infer,
        "async_mode": async_mode,
        "expires_at": expires_at,
        "ttl_s": ttl_s,
    }
    return Operation(
        "POST",
        "/v1/memories",
        reads(AddResult),
        content=encode_model(wire.AddRequest, fields),
        # The same key on every attempt: the sidecar adds once, however often it hears this.
        headers={"Idempotency-Key": check_key(idempotency_key) or uuid.uuid4().hex},
    )


def extraction(extraction_id: str) -> Operation[AddResult]:
    return Operation("GET", f"/v1/extractions/{path_id(extraction_id)}", reads(AddResult))


def get(
    memory_id: str, *, show_expired: bool = False, as_of: Time = None
) -> Operation[MemoryRecord | None]:
    read: Callable[[httpx.Response], MemoryRecord | None] = reads(MemoryRecord)
    path, moment = f"/v1/memories/{path_id(memory_id)}", reading(show_expired, as_of)
    return Operation("GET", path, read, params=moment, if_missing=lambda: None)


def search(
    query: str,
    *,
    scope: Scope,
    limit: int | None,
    threshold: float | None,
    filters: Mapping[str, Any] | None,
    ranking: Mapping[str, Any] = NO_RANKING,
    show_expired: bool = False,
    as_of: Time = None,
    extra: Mapping[str, Any],
) -> Operation[SearchResult]:
    reject_unsupported("search", extra)
    ids, rest = split_filters(filters, scope)
    fields = {"query": query, "limit": limit, "threshold": threshold, "filters": rest or None}
    moment: dict[str, Any] = {"show_expired": show_expired or None, "as_of": as_of}
    content = encode_model(wire.SearchRequest, {**ids, **fields, **moment, **ranking})
    return Operation("POST", "/v1/memories/search", reads(SearchResult), content=content)


def update(
    memory_id: str,
    *,
    text: str | None,
    data: str | None,
    metadata: Mapping[str, Any] | None,
    expires_at: datetime | str | None = None,
    ttl_s: int | None = None,
) -> Operation[UpdateResult]:
    if text is not None and data is not None and text != data:
        raise InvalidArgumentError("text and data are names of one thing; give text.")
    never = expires_at == "never"
    fields = {
        "text": text if text is not None else data,
        "metadata": metadata,
        "expires_at": None if never else expires_at,
        "ttl_s": ttl_s,
    }
    if not never and all(value is None for value in fields.values()):
        raise InvalidArgumentError(
            "update needs text, metadata, expires_at or ttl_s; with none there is no change."
        )
    nulls = ("expires_at",) if never else ()
    return Operation(
        "PATCH",
        f"/v1/memories/{path_id(memory_id)}",
        reads(UpdateResult),
        content=encode_model(wire.UpdateRequest, fields, nulls=nulls),
        repeatable=False,
    )


def delete(memory_id: str) -> Operation[DeleteResult]:
    # Not repeatable: the second of two deletions would report that there is no such memory.
    path = f"/v1/memories/{path_id(memory_id)}"
    return Operation("DELETE", path, reads(DeleteResult), repeatable=False)


def delete_all(scope: Scope) -> Operation[DeleteResult]:
    return Operation(
        "DELETE",
        "/v1/memories",
        lambda response: DeleteResult(
            **{**response.json(), "message": "Memories deleted successfully!"}
        ),
        params=scope_ids(scope),
        repeatable=False,
    )


def delete_where(
    filters: Mapping[str, Any], *, scope: Scope, dry_run: bool
) -> Operation[DeleteWhereResult]:
    ids, rest = split_filters(filters, scope)
    fields = {**ids, "filters": rest, "dry_run": dry_run}
    return Operation(
        "POST",
        "/v1/memories/delete",
        reads(DeleteWhereResult),
        content=encode_model(wire.DeleteRequest, fields),
        repeatable=dry_run,
    )


def history(memory_id: str) -> Operation[list[HistoryRecord]]:
    return Operation(
        "GET",
        f"/v1/memories/{path_id(memory_id)}/history",
        lambda response: [HistoryRecord.model_validate(row) for row in response.json()["results"]],
        if_missing=list,
    )


def recall(
    query: str,
    *,
    scope: Scope,
    k: int | None,
    threshold: float | None,
    filters: Mapping[str, Any] | None,
    ttl_s: int | None,
    max_tokens: int | None = None,
    as_of: Time = None,
    ranking: Mapping[str, Any] = NO_RANKING,
) -> Operation[MemoryHandle]:
    ids, rest = split_filters(filters, scope)
    fields = {
        "query": query,
        "k": k,
        "threshold": threshold,
        "filters": rest or None,
        "max_tokens": max_tokens,
        "as_of": as_of,
        "ttl_s": ttl_s,
    }
    content = encode_model(wire.RecallRequest, {**ids, **fields, **ranking})
    return Operation(
        "POST", "/v1/recall", lambda response: create_handle(response.json()), content=content
    )


def get_handle(handle_id: str) -> Operation[MemoryHandle]:
    path = f"/v1/handles/{path_id(handle_id)}"
    return Operation("GET", path, lambda response: create_handle(response.json()))


def builds() -> Operation[BuildStatus]:
    return Operation("GET", "/v1/builds", reads(BuildStatus))


def ready() -> Operation[None]:
    return Operation("GET", "/ready", lambda response: None)
