"""One pure function per method of the document store: arguments → `Operation`.

Every call is a batch, of one operation or of many: there is one way to write and to read them. All
of them raise InvalidArgumentError for arguments that cannot be honoured.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import httpx
from pydantic import ValidationError

from inferscale._operation import Operation
from inferscale._results import Document, FoundDocument
from inferscale._validate import encode_json, explain
from inferscale.errors import InvalidArgumentError
from inferscale.protocol import document as wire

Namespace = Sequence[str]
"""Labels from the root, e.g. `("users", "alice", "settings")`."""


def batch(operations: Sequence[Mapping[str, Any]], user_id: str | None) -> Operation[list[Any]]:
    fields: dict[str, Any] = {"operations": [dict(each) for each in operations]}
    if user_id is not None:
        fields["user_id"] = user_id
    try:
        body = wire.BatchRequest.model_validate(fields)
    except ValidationError as error:
        raise InvalidArgumentError(f"{explain(error)}.") from None
    content = encode_json(body.model_dump(exclude_unset=True))
    kinds = [each.op for each in body.operations]

    def read(response: httpx.Response) -> list[Any]:
        results = response.json()["results"]
        return [_read(kind, result) for kind, result in zip(kinds, results, strict=True)]

    # Repeatable: a write replaces, so doing it twice is doing it once.
    return Operation("POST", "/v1/store/batch", read, content=content)


def put(
    user_id: str | None,
    namespace: Namespace,
    key: str,
    value: Mapping[str, Any],
    *,
    index: Sequence[str] | Literal[False] | None,
    ttl_s: float | None,
) -> Operation[None]:
    paths = index if index is None or index is False else list(index)
    fields = {"value": dict(value), "index": paths, "ttl_s": ttl_s}
    return _one(user_id, {"op": "put", "namespace": list(namespace), "key": key, **fields})


def get(
    user_id: str | None, namespace: Namespace, key: str, *, refresh_ttl: bool
) -> Operation[Document | None]:
    path = {"namespace": list(namespace), "key": key}
    return _one(user_id, {"op": "get", **path, "refresh_ttl": refresh_ttl})


def delete(user_id: str | None, namespace: Namespace, key: str) -> Operation[None]:
    return _one(user_id, {"op": "delete", "namespace": list(namespace), "key": key})


def search(
    user_id: str | None,
    namespace_prefix: Namespace,
    *,
    query: str | None,
    filter: Mapping[str, Any] | None,
    limit: int,
    offset: int,
    refresh_ttl: bool,
) -> Operation[list[FoundDocument]]:
    fields = {
        "namespace_prefix": list(namespace_prefix),
        "query": query,
        "filter": None if filter is None else dict(filter),
        "limit": limit,
        "offset": offset,
        "refresh_ttl": refresh_ttl,
    }
    return _one(user_id, {"op": "search", **fields})


def list_namespaces(
    user_id: str | None,
    *,
    prefix: Namespace | None,
    suffix: Namespace | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> Operation[list[tuple[str, ...]]]:
    ends = [
        {"match_type": kind, "path": list(path)}
        for kind, path in (("prefix", prefix), ("suffix", suffix))
        if path
    ]
    pages = {"max_depth": max_depth, "limit": limit, "offset": offset}
    return _one(user_id, {"op": "namespaces", "match_conditions": ends, **pages})


def delete_all(user_id: str) -> Operation[int]:
    try:
        owned = wire.Owned(user_id=user_id)
    except ValidationError as error:
        raise InvalidArgumentError(f"{explain(error)}.") from None
    if owned.user_id is None:
        raise InvalidArgumentError("whose documents? delete_all needs a user_id.")

    def read(response: httpx.Response) -> int:
        return wire.RemovedItems.model_validate(response.json()).deleted

    return Operation("DELETE", "/v1/store", read, params={"user_id": owned.user_id})


def _one(user_id: str | None, operation: dict[str, Any]) -> Operation[Any]:
    whole = batch([operation], user_id)
    return Operation(
        whole.method, whole.path, lambda response: whole.read(response)[0], content=whole.content
    )


def _read(kind: str, result: Any) -> Any:
    if kind == "get":
        return None if result is None else Document.model_validate(result)
    if kind == "search":
        return [FoundDocument.model_validate(each) for each in result]
    if kind == "namespaces":
        return [tuple(each) for each in result]
    return None
