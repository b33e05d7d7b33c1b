"""Zep's users, threads and graphs → our scopes; and which arguments name them.

Owns the mapping: user → user_id, thread → a thread of the user, whose id is the run_id of what is
remembered from it, graph without a user → agent_id. A v4 graph_uuid of a user's graph is
`user:<user_id>`.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import InvalidArgumentError, NotFoundError
from inferscale.compat._flow import Flow, call

_USER_GRAPH = "user:"
PAGE = 500

NO_ONTOLOGY = "there is no ontology; every memory is a fact"
NOT_REPEATABLE = "only additions take an idempotency key"


def one_id(**names: str | None) -> str:
    """The one id given under any of its names. Raises InvalidArgumentError for none or several."""
    given = {name: value for name, value in names.items() if value is not None}
    if len(set(given.values())) != 1:
        raise InvalidArgumentError(f"give one of {', '.join(names)}; given: {sorted(given)}.")
    return next(iter(given.values()))


def graph_uuid_of(user_id: str) -> str:
    """How v4's graph methods name a user's memory."""
    return f"{_USER_GRAPH}{user_id}"


def graph_scope(
    *, user_id: str | None = None, graph_id: str | None = None, graph_uuid: str | None = None
) -> dict[str, str]:
    """The scope of a graph. Raises InvalidArgumentError unless exactly one is named."""
    if graph_uuid is not None and graph_uuid.startswith(_USER_GRAPH):
        user_id = one_id(user_id=user_id, graph_uuid=graph_uuid.removeprefix(_USER_GRAPH))
        graph_uuid = None
    one_id(user_id=user_id, graph_id=graph_id, graph_uuid=graph_uuid)
    if user_id is not None:
        return {"user_id": user_id}
    return {"agent_id": one_id(graph_id=graph_id, graph_uuid=graph_uuid)}


def unknown_thread(thread_id: str) -> NotFoundError:
    """What is raised for a thread that nobody made."""
    return NotFoundError(
        f"there is no thread {thread_id!r}.",
        remedy="Call thread.create(thread_id=…, user_id=…) first; it may be repeated.",
    )


def thread_call(method: str, thread_id: str, *args: Any, **kwargs: Any) -> Flow[Any]:
    """Call a method of `threads`. Raises NotFoundError as `unknown_thread`."""
    try:
        return (yield from call(f"threads.{method}", thread_id, *args, **kwargs))
    except NotFoundError:
        raise unknown_thread(thread_id) from None


def list_newest(scope: Mapping[str, str], limit: int | None = None) -> Flow[list[Any]]:
    """Memories of a scope, newest first: all, or `limit` of them."""
    if limit is None:
        return list((yield from call("get_all", **scope)).results)
    records: list[Any] = []
    cursor: str | None = None
    while len(records) < limit:
        size = min(limit - len(records), PAGE)
        page = yield from call("get_all", **scope, limit=size, cursor=cursor)
        records += page.results
        cursor = page.next_cursor
        if cursor is None:
            break
    return records
