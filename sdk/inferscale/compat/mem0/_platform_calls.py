"""The methods of Mem0's hosted client, as flows. Options come as an object, a dict or arguments.

Owns which options of the platform ask for nothing here, and why the others are refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import InvalidArgumentError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import only_known, refuse, refuse_given
from inferscale.compat.mem0 import _calls, _pages, _shape
from inferscale.compat.mem0._expiry import UNSET, expires_at
from inferscale.compat.mem0._scope import ID_NAMES, read_scope

_DEFAULT_LIMIT = 10
_PLATFORM_FIELDS = ("categories", "keywords", "memory_ids", "feedback")

# Formats and ways of working that are the only ones here, or what is done anyhow: a search is by
# meaning and shared words.
_HARMLESS = ("version", "async_mode", "output_format", "latest_only", "keyword_search")
_REFUSED = {
    "org_id": "the API key alone says whose memories these are",
    "project_id": "the API key alone says whose memories these are",
    "enable_graph": "there is no graph",
    "categories": "memories have no categories; put them into metadata and filter by it",
    "custom_categories": "memories have no categories; put them into metadata",
    "custom_instructions": "extraction is set up on the sidecar, not per call",
    "agent_custom_instructions": "extraction is set up on the sidecar, not per call",
    "includes": "extraction is set up on the sidecar, not per call",
    "excludes": "extraction is set up on the sidecar, not per call",
    "structured_data_schema": "extraction is set up on the sidecar, not per call",
    "immutable": "memories can be changed; do not call update on this one",
    "filter_memories": "use filters",
    "start_date": "use filters={'created_at': {'gte': …}}",
    "end_date": "use filters={'created_at': {'lte': …}}",
    "delete_linked": "superseded versions go with the memory; there are no linked ones",
}
_NO_UPDATE = {
    "timestamp": "memories carry the time at which they were changed",
}


class PlatformCalls:
    """Methods of `MemoryClient`, written once for both clients."""

    def add(self, /, messages: Any, options: Any = None, **kwargs: Any) -> Flow[dict[str, Any]]:
        """Remember. The result is complete at once: `{"results": [{"id", "memory", "event"}]}`."""
        given = _options("add", options, kwargs)
        ids, rest = _scope(given)
        if rest:
            raise InvalidArgumentError(f"add(filters=…) takes ids only, not {sorted(rest)}.")
        metadata = _calls.own_metadata(given.pop("metadata", None))
        infer = given.pop("infer", None)
        until = expires_at(given.pop("expiration_date", None))
        result = yield from call(
            "add",
            _calls.check_messages(messages),
            **ids,
            metadata=metadata,
            infer=infer,
            expires_at=until,
            **_calls.asked(**given),
        )
        return _shape.added(result.results)

    def get(self, /, memory_id: str) -> Flow[dict[str, Any]]:
        """One memory. Raises MemoryNotFoundError, unlike `Memory.get`."""
        record = yield from call("get", memory_id)
        if record is None:
            raise _calls.not_found(memory_id)
        return _shape.item(record)

    def get_all(self, /, options: Any = None, **kwargs: Any) -> Flow[dict[str, Any]]:
        """`{"count", "next", "previous", "results"}`: all, or one `page` of `page_size` (100)."""
        given = _options("get_all", options, kwargs)
        page, size = given.pop("page", None), given.pop("page_size", None)
        limit = _calls.one_of(given.pop("top_k", None), given.pop("limit", None), "top_k, limit")
        _calls.check_limit(limit)
        fields = given.pop("fields", None)
        ids, rest = _scope(given)
        extra = _calls.asked(**given)
        if page is None and size is None:
            records = yield from _calls.list_up_to(ids, rest, limit, **extra)
            return _pages.page(records, len(records), fields=fields)
        return (yield from _pages.numbered(ids, rest, page, size, fields, extra))

    def search(self, /, query: str, options: Any = None, **kwargs: Any) -> Flow[dict[str, Any]]:
        """Memories like `query`, best first: at most `top_k` (or `limit`), 10 if not given."""
        given = _options("search", options, kwargs)
        size = _calls.one_of(given.pop("top_k", None), given.pop("limit", None), "top_k, limit")
        threshold, fields = given.pop("threshold", None), given.pop("fields", None)
        _calls.check_search(query, limit=size, threshold=threshold)
        by_metadata = given.pop("metadata", None)
        ids, rest = _scope(given, by_metadata)
        result = yield from call(
            "search",
            query.strip(),
            **ids,
            limit=_DEFAULT_LIMIT if size is None else size,
            threshold=threshold,
            filters=rest,
            **_calls.asked(**given),
        )
        found = _shape.found(result.results, threshold)["results"]
        return {"results": [_pages.only(fields, each) for each in found]}

    def update(
        self,
        /,
        memory_id: str,
        options: Any = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        **kwargs: Any,
    ) -> Flow[dict[str, Any]]:
        """A new `text` (or `data`), more `metadata`, or both. Returns the memory.

        The text may also be the second positional argument, as in 1.x.
        """
        text = options if isinstance(options, str) else None
        given = _options("update", None if text is not None else options, kwargs)
        metadata = _calls.one_of(metadata, given.pop("metadata", None), "metadata")
        text = _calls.one_of(text, given.pop("text", None), "text")
        data, until = given.pop("data", None), given.pop("expiration_date", UNSET)
        given["timestamp"] = _calls.one_of(timestamp, given.get("timestamp"), "timestamp")
        only_known("update", _NO_UPDATE, given)
        record = yield from _calls.change(memory_id, text, data, metadata, until)
        return {**_shape.item(record), "text": record.memory}

    def delete(self, /, memory_id: str, delete_linked: bool = False) -> Flow[dict[str, Any]]:
        """Forget one memory. Raises MemoryNotFoundError for an unknown id."""
        refuse_given("delete", _REFUSED, {"delete_linked": delete_linked})
        return (yield from _calls.forget(memory_id))

    def delete_all(self, /, options: Any = None, **kwargs: Any) -> Flow[dict[str, Any]]:
        """Forget all memories that carry all of the given ids; at least one. `*` is refused."""
        given = _options("delete_all", options, kwargs)
        ids, rest = _scope(given)
        if rest or given:
            raise InvalidArgumentError(
                f"delete_all takes ids only, not {sorted({*(rest or {}), *given})}."
            )
        yield from call("delete_all", **ids)
        return {"message": "Memories deleted successfully!"}

    def history(self, /, memory_id: str) -> Flow[list[dict[str, Any]]]:
        """All changes of a memory, oldest first; [] for an unknown id."""
        return (yield from _calls.events(memory_id))

    def users(self, /) -> Flow[dict[str, Any]]:
        """All users, agents, apps and runs that have memories, on one page."""
        found = yield from call("entities")
        return {
            "count": found.total,
            "next": None,
            "previous": None,
            "results": [_shape.entity(each) for each in found.results],
        }

    def delete_users(
        self,
        /,
        user_id: str | None = None,
        agent_id: str | None = None,
        app_id: str | None = None,
        run_id: str | None = None,
    ) -> Flow[dict[str, Any]]:
        """Forget all memories of one user, agent, app or run. Without one, or with several:
        refused."""
        own = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        ids, _ = read_scope(own)
        if len(ids) != 1:
            refuse(
                f"delete_users() with {len(ids)} ids",
                "name exactly one user, agent, app or run; deleting everyone's is not offered",
            )
        yield from call("delete_all", **ids)
        return {"message": "Entity deleted successfully."}

    def batch_update(self, /, memories: Sequence[Mapping[str, Any]]) -> Flow[dict[str, Any]]:
        """Update one after the other; not all or none. Stops at the first that fails."""
        for each in memories:
            text, metadata = each.get("text"), each.get("metadata")
            until = each.get("expiration_date", UNSET)
            yield from _calls.change(each["memory_id"], text, each.get("data"), metadata, until)
        return {"message": f"Successfully updated {len(memories)} memories"}

    def batch_delete(self, /, memories: Sequence[Mapping[str, Any]]) -> Flow[dict[str, Any]]:
        """Delete one after the other; not all or none. Stops at the first that fails."""
        for each in memories:
            yield from _calls.forget(each["memory_id"])
        return {"message": f"Successfully deleted {len(memories)} memories"}


def _options(method: str, options: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All options that were given, less those that change nothing here; refuses the refused."""
    if options is not None and not isinstance(options, Mapping):
        options = options.model_dump(exclude_unset=True)
    given = {**(options or {}), **kwargs}
    refuse_given(method, _REFUSED, given)
    if given.get("output_format") == "v1.0":
        refuse(f"{method}(output_format='v1.0')", "results have the format of v1.1")
    return {name: v for name, v in given.items() if name not in (*_HARMLESS, *_REFUSED)}


def _scope(
    given: dict[str, Any], by_metadata: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Takes ids and filters out of `given`."""
    filters = given.pop("filters", None)
    _reject_platform_fields(filters)
    ids = {name: given.pop(name, None) for name in ID_NAMES}
    return read_scope(ids, {"AND": [each for each in (filters, by_metadata) if each]})


def _reject_platform_fields(filters: Any) -> None:
    """Fields that only the platform's memories have would match nothing, silently."""
    if isinstance(filters, Mapping):
        for name, value in filters.items():
            if name in _PLATFORM_FIELDS:
                refuse(
                    f"filters={{{name!r}: …}}",
                    "memories have no such field here; put it into metadata under another name",
                )
            _reject_platform_fields(value)
    elif isinstance(filters, list | tuple):
        for value in filters:
            _reject_platform_fields(value)
