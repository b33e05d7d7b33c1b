"""One pure function per block endpoint: arguments → `Operation`. As `_operations`."""

from collections.abc import Callable, Mapping
from typing import Any

import httpx

from inferscale._block_results import Block, BlockHistoryRecord, BlockList
from inferscale._dialect import Scope, optional_ids, scope_ids
from inferscale._exchange import PAGE_SIZE, Flow, every_page
from inferscale._operation import Operation, reads
from inferscale._results import DeleteResult
from inferscale._retry import RetryPolicy
from inferscale._validate import encode_model, path_id
from inferscale.errors import InvalidArgumentError
from inferscale.protocol import blocks as wire
from inferscale.protocol.memory import Scope as WireScope


def create(fields: Mapping[str, Any], *, scope: Scope) -> Operation[Block]:
    content = encode_model(wire.CreateBlockRequest, {**optional_ids(scope), **fields})
    # Not repeatable: the second of two would find the label taken.
    return Operation("POST", "/v1/blocks", reads(Block), content=content, repeatable=False)


def get(block_id: str) -> Operation[Block | None]:
    read: Callable[[httpx.Response], Block | None] = reads(Block)
    return Operation("GET", _path(block_id), read, if_missing=lambda: None)


def list_page(
    scope: Scope, *, label: str | None, limit: int | None = None, cursor: str | None = None
) -> Operation[BlockList]:
    params = optional_ids(scope)
    given = {"label": label, "limit": limit, "cursor": cursor}
    params |= {name: str(value) for name, value in given.items() if value is not None}
    return Operation("GET", "/v1/blocks", reads(BlockList), params=params)


def list_all(scope: Scope, label: str | None, policy: RetryPolicy) -> Flow[BlockList]:
    """All pages as one."""

    def page_at(cursor: str | None) -> Operation[Any]:
        return list_page(scope, label=label, limit=PAGE_SIZE, cursor=cursor)

    results, total = yield from every_page(page_at, policy)
    return BlockList(results=results, total=total)


def shown(scope: Scope) -> Operation[BlockList]:
    params = {**scope_ids(scope), "shown": "true"}
    return Operation("GET", "/v1/blocks", reads(BlockList), params=params)


def update(
    block_id: str, changes: Mapping[str, Any], *, if_version: int | None
) -> Operation[Block]:
    given = {name: value for name, value in changes.items() if value is not None}
    if not given:
        raise InvalidArgumentError("update needs at least one field to change; none was given.")
    content = encode_model(wire.UpdateBlockRequest, {**given, "if_version": if_version})
    return Operation("PATCH", _path(block_id), reads(Block), content=content, repeatable=False)


def append(block_id: str, text: str, *, if_version: int | None) -> Operation[Block]:
    content = encode_model(wire.AppendRequest, {"text": text, "if_version": if_version})
    return _edit(block_id, "append", content)


def replace(block_id: str, old: str, new: str, *, if_version: int | None) -> Operation[Block]:
    fields = {"old": old, "new": new, "if_version": if_version}
    return _edit(block_id, "replace", encode_model(wire.ReplaceRequest, fields))


def attach(block_id: str, scope: Scope) -> Operation[Block]:
    path, content = f"{_path(block_id)}/attach", encode_model(WireScope, scope_ids(scope))
    return Operation("POST", path, reads(Block), content=content)


def detach(block_id: str, scope: Scope) -> Operation[Block]:
    path, content = f"{_path(block_id)}/detach", encode_model(WireScope, scope_ids(scope))
    return Operation("POST", path, reads(Block), content=content)


def delete(block_id: str) -> Operation[DeleteResult]:
    return Operation(
        "DELETE",
        _path(block_id),
        lambda response: DeleteResult(**{**response.json(), "message": "Block deleted."}),
        repeatable=False,
    )


def history(block_id: str) -> Operation[list[BlockHistoryRecord]]:
    return Operation(
        "GET",
        f"{_path(block_id)}/history",
        lambda response: [
            BlockHistoryRecord.model_validate(row) for row in response.json()["results"]
        ],
        if_missing=list,
    )


def _edit(block_id: str, what: str, content: bytes) -> Operation[Block]:
    # Not repeatable: a line would be there twice.
    path = f"{_path(block_id)}/{what}"
    return Operation("POST", path, reads(Block), content=content, repeatable=False)


def _path(block_id: str) -> str:
    return f"/v1/blocks/{path_id(block_id)}"
