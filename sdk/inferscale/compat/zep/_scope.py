"""Zep's users, threads and graphs → our scopes; and which arguments name them.

Owns the mapping: user → user_id, thread → run_id, graph without a user → agent_id. A v4 graph_uuid
of a user's graph is `user:<user_id>`.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import InvalidArgumentError, NotFoundError
from inferscale.compat._flow import Flow, call

_USER_GRAPH = "user:"
_MAX_OWNERS = 10_000
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


class Owners:
    """Whose a thread is: known since it was created here, else read from its newest memory."""

    def __init__(self) -> None:
        self._user_of: dict[str, str] = {}

    def put(self, thread_id: str, user_id: str) -> None:
        """Remember; the oldest are forgotten, for they can be looked up."""
        while len(self._user_of) >= _MAX_OWNERS:
            del self._user_of[next(iter(self._user_of))]
        self._user_of[thread_id] = user_id

    def pop(self, thread_id: str) -> None:
        """Forget."""
        self._user_of.pop(thread_id, None)

    def threads_of(self, user_id: str) -> list[str]:
        """Threads of a user that were created here."""
        return [thread for thread, owner in self._user_of.items() if owner == user_id]

    def find(self, thread_id: str) -> Flow[str | None]:
        """The user of a thread, or None if it is unknown."""
        if thread_id in self._user_of:
            return self._user_of[thread_id]
        newest = yield from call("get_all", run_id=thread_id, limit=1)
        for record in newest.results:
            if record.user_id is not None:
                self.put(thread_id, record.user_id)
                return str(record.user_id)
        return None

    def scope(self, thread_id: str) -> Flow[dict[str, str]]:
        """The scope of a thread. Raises NotFoundError if nobody knows it."""
        user_id = yield from self.find(thread_id)
        if user_id is None:
            raise NotFoundError(
                f"there is no thread {thread_id!r}: it has no messages, and this client did not "
                "create it.",
                remedy="Call thread.create(thread_id=…, user_id=…) first; it may be repeated.",
            )
        return {"user_id": user_id, "run_id": thread_id}


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
