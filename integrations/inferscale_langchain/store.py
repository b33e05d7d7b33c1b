"""`InferScaleStore`: LangGraph's long-term store, kept by the sidecar.

Owns the translation of LangGraph's operations; what they mean is the sidecar's document store.
Invariants: within a batch reads see what was there before the writes; a time to live is minutes
here and seconds there; whose documents it holds is fixed when it is made.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from inferscale import AsyncMemory, Document, FoundDocument, InvalidArgumentError, Memory
from inferscale_shared.clients import Clients

_WHOLE = ["$"]


class InferScaleStore(BaseStore):
    """A `BaseStore` for `create_agent(store=…)` and graphs.

    Args:
        memory, async_memory: as in `InferScaleMiddleware`.
        user_id: whose documents, apart from everybody else's. None: those that all users of the
            API key share; put the user into the namespace then, as LangGraph does.
        index: `{"fields": ["text"]}` to find documents by meaning (default: the whole document).
            The sidecar embeds, so `embed` and `dims` are not taken. None: by filter only, and
            `query` and `index` of calls have no effect.
        ttl: `default_ttl` (minutes) and `refresh_on_read`. What has expired is never shown, and the
            sidecar removes it by itself: `omit_expired` and `sweep_interval_minutes` do nothing.

    Raises:
        InvalidArgumentError: an argument that makes no sense.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        async_memory: AsyncMemory | None = None,
        user_id: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        if index and (index.get("embed") or index.get("dims")):
            raise InvalidArgumentError(
                "index names embed or dims; the sidecar embeds with its own model, leave them out."
            )
        self._clients = Clients(memory, async_memory)
        self._user_id = user_id
        self.index_config = index
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of the operations, in their order; one request.

        Raises:
            InvalidNamespaceError: a label that is empty, no string, or holds a period.
            InvalidArgumentError: more than 1,000 operations, or a value that is not JSON.
        """
        given = list(ops)
        operations = self._operations(given)
        if not operations:
            return [None] * len(given)
        documents = self._clients.blocking.documents.of_user(self._user_id)
        return _results(given, operations, documents.batch(list(operations.values())))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`."""
        awaiting = self._clients.awaiting
        given = list(ops)
        if awaiting is None:
            return await asyncio.to_thread(self.batch, given)
        operations = self._operations(given)
        if not operations:
            return [None] * len(given)
        documents = awaiting.documents.of_user(self._user_id)
        return _results(given, operations, await documents.batch(list(operations.values())))

    def _operations(self, ops: list[Op]) -> dict[int, dict[str, Any]]:
        """The sidecar's operation for each of LangGraph's, by position.

        Reads and deletions in the empty namespace, where nothing can lie, have none.
        """
        for op in ops:
            validate_op_namespace(op)
        found = {at: self._operation(op) for at, op in enumerate(ops)}
        return {at: operation for at, operation in found.items() if operation is not None}

    def _operation(self, op: Op) -> dict[str, Any] | None:
        if isinstance(op, PutOp):
            return self._write(op)
        if isinstance(op, GetOp):
            path = {"namespace": list(op.namespace), "key": op.key}
            return {"op": "get", **path, "refresh_ttl": op.refresh_ttl} if op.namespace else None
        if isinstance(op, SearchOp):
            return {
                "op": "search",
                "namespace_prefix": list(op.namespace_prefix),
                "query": (op.query or None) if self.index_config is not None else None,
                "filter": op.filter,
                "limit": op.limit,
                "offset": op.offset,
                "refresh_ttl": op.refresh_ttl,
            }
        if isinstance(op, ListNamespacesOp):
            ends = [
                {"match_type": end.match_type, "path": list(end.path)}
                for end in op.match_conditions or ()
            ]
            pages = {"max_depth": op.max_depth, "limit": op.limit, "offset": op.offset}
            return {"op": "namespaces", "match_conditions": ends, **pages}
        raise InvalidArgumentError(f"{type(op).__name__} is not an operation of a store.")

    def _write(self, op: PutOp) -> dict[str, Any] | None:
        path = {"namespace": list(op.namespace), "key": op.key}
        if op.value is None:
            return {"op": "delete", **path} if op.namespace else None
        if not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
        ttl_s = None if op.ttl is None else op.ttl * 60
        fields = {"value": dict(op.value), "index": self._paths(op), "ttl_s": ttl_s}
        return {"op": "put", **path, **fields}

    def _paths(self, op: PutOp) -> list[str] | None:
        if self.index_config is None or op.index is False:
            return None
        return list(op.index if op.index is not None else self.index_config.get("fields") or _WHOLE)


def _results(ops: list[Op], operations: dict[int, Any], found: list[Any]) -> list[Result]:
    by_position = dict(zip(operations, found, strict=True))
    return [_result(by_position.get(at)) for at in range(len(ops))]


def _result(found: Any) -> Result:
    if isinstance(found, Document):
        return Item(**_fields(found))
    if not isinstance(found, list):
        return None
    return [
        SearchItem(**_fields(each), score=each.score) if isinstance(each, FoundDocument) else each
        for each in found
    ]


def _fields(document: Document) -> dict[str, Any]:
    return {
        "namespace": tuple(document.namespace),
        "key": document.key,
        "value": document.value,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }
