"""The methods of Mem0's `Memory`, as flows: 1.x and 2.x spellings of one set of arguments.

Owns the defaults that depend on the spelling. Knows neither blocking nor awaiting.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale.compat._flow import Flow, call
from inferscale.compat.mem0 import _calls, _shape
from inferscale.compat.mem0._expiry import UNSET, expires_at
from inferscale.compat.mem0._scope import read_scope

Messages = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
Filters = Mapping[str, Any]
_DEFAULT_LIMIT = {"1.x": 100, "2.x": 20}


class MemoryCalls:
    """Mem0's methods, written once for both clients."""

    def add(
        self,
        /,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool | None = None,
        memory_type: str | None = None,
        prompt: str | None = None,
        llm: Any = None,
    ) -> Flow[dict[str, Any]]:
        """Remember. `{"results": [{"id", "memory", "event"}]}`; event NONE: it was known already.

        `infer` as in Mem0, but left out it is as the sidecar is set up, not True. A memory is there
        until the end of its `expiration_date` in UTC.
        """
        own = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        ids, _ = read_scope(own)
        extra = _calls.asked(
            timestamp=timestamp,
            memory_type=memory_type,
            prompt=prompt,
            llm=llm,
        )
        result = yield from call(
            "add",
            _calls.check_messages(messages),
            **ids,
            metadata=_calls.own_metadata(metadata),
            infer=infer,
            expires_at=expires_at(expiration_date),
            **extra,
        )
        return _shape.added(result.results)

    def get(self, /, memory_id: str) -> Flow[dict[str, Any] | None]:
        """One memory, or None if there is none with this id."""
        record = yield from call("get", memory_id)
        return None if record is None else _shape.item(record, score=None)

    def get_all(
        self,
        /,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        filters: Filters | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        show_expired: bool = False,
        **extra: Any,
    ) -> Flow[dict[str, Any]]:
        """Memories of a scope, newest first: all, unless `top_k` (or `limit`) is given."""
        own = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        ids, rest = read_scope(own, filters)
        size = _calls.one_of(top_k, limit, "top_k and limit")
        _calls.check_limit(size)
        asked = _calls.asked(show_expired=show_expired) | extra
        records = yield from _calls.list_up_to(ids, rest, size, **asked)
        return {"results": [_shape.item(record) for record in records]}

    def search(
        self,
        /,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        filters: Filters | None = None,
        metadata_filters: Filters | None = None,
        threshold: float | None = None,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **extra: Any,
    ) -> Flow[dict[str, Any]]:
        """Memories like `query`, best first, each with its `score`.

        Without `top_k` or `limit` at most 100 come if ids are arguments (as in Mem0 1.x), else 20
        (2.x). There is no threshold unless one is given.
        """
        own = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        given = [each for each in (filters, metadata_filters) if each]
        ids, rest = read_scope(own, {"AND": given})
        size = _calls.one_of(top_k, limit, "top_k and limit")
        _calls.check_search(query, limit=size, threshold=threshold)
        if size is None:
            size = _DEFAULT_LIMIT["2.x" if set(own.values()) == {None} else "1.x"]
        asked = _calls.asked(
            rerank=rerank,
            explain=explain,
            reference_date=reference_date,
            show_expired=show_expired,
        )
        result = yield from call(
            "search",
            query.strip(),
            **ids,
            limit=size,
            threshold=threshold,
            filters=rest,
            **asked,
            **extra,
        )
        return _shape.found(result.results, threshold)

    def update(
        self,
        /,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = UNSET,
        data: str | None = None,
    ) -> Flow[dict[str, Any]]:
        """A new text (`data` in 1.x), more metadata, another `expiration_date` (None: never).

        Metadata is merged, as in 2.x.
        """
        yield from _calls.change(memory_id, text, data, metadata, expiration_date)
        return {"message": "Memory updated successfully!"}

    def delete(self, /, memory_id: str) -> Flow[dict[str, Any]]:
        """Forget one memory. Raises MemoryNotFoundError, a ValueError, for an unknown id."""
        return (yield from _calls.forget(memory_id))

    def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> Flow[dict[str, Any]]:
        """Forget all memories that carry all of the given ids; at least one. `*` is refused."""
        own = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        ids, _ = read_scope(own)
        yield from call("delete_all", **ids)
        return {"message": "Memories deleted successfully!"}

    def history(self, /, memory_id: str) -> Flow[list[dict[str, Any]]]:
        """All changes of a memory, oldest first; [] for an unknown id."""
        return (yield from _calls.events(memory_id))
