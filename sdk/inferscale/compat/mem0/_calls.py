"""Flows that both of Mem0's kinds of client need, and the checks on their arguments."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from inferscale import InvalidArgumentError, MemoryRecord, NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat.mem0 import _shape
from inferscale.compat.mem0._expiry import UNSET, expires_at
from inferscale.compat.mem0._scope import ID_NAMES
from inferscale.compat.mem0.exceptions import MemoryNotFoundError

_log = logging.getLogger("inferscale.compat.mem0")
_PAGE = 500
_IDENTITY = (*ID_NAMES, "actor_id")


def asked(**arguments: Any) -> dict[str, Any]:
    """The arguments that ask for something: they go to the SDK, which takes or refuses them."""
    return {
        name: value for name, value in arguments.items() if value is not None and value is not False
    }


def check_messages(messages: Any) -> Any:
    """Raises InvalidArgumentError unless it is a string, a message or a list of them."""
    if not isinstance(messages, str | Mapping | BaseModel | list | tuple):
        raise InvalidArgumentError(
            f"messages is a {type(messages).__name__}; it must be a str, a dict or a list of dicts."
        )
    return messages


def check_search(query: Any, *, limit: Any, threshold: Any) -> None:
    """Raises InvalidArgumentError for what Mem0 refuses with a ValueError."""
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgumentError("query must be a non-empty string, and not only blanks.")
    check_limit(limit)
    if threshold is not None and not (
        isinstance(threshold, int | float) and 0 <= float(threshold) <= 1
    ):
        raise InvalidArgumentError(f"threshold is {threshold!r}; it must be a number from 0 to 1.")


def check_limit(limit: Any) -> None:
    """Raises InvalidArgumentError unless it is None or an integer that is not negative."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidArgumentError(f"top_k (limit) is {limit!r}; it must be an integer >= 0.")


def one_of(first: Any, second: Any, names: str) -> Any:
    """The value given under either of two names. Raises InvalidArgumentError if they differ."""
    if first is not None and second is not None and first != second:
        raise InvalidArgumentError(f"{names} are two names of one thing; give one of them.")
    return second if first is None else first


def own_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The metadata without identity: whose a memory is, only the ids of its scope say."""
    if metadata is None:
        return None
    for name in _IDENTITY:
        if name in metadata:
            _log.warning("metadata[%r] is left out: it does not say whose a memory is", name)
    return {name: value for name, value in metadata.items() if name not in _IDENTITY}


def list_up_to(
    ids: Mapping[str, Any], filters: Mapping[str, Any] | None, limit: int | None, **extra: Any
) -> Flow[list[MemoryRecord]]:
    """The newest memories of a scope that pass the filters: all, or `limit` of them."""
    if limit is None:
        everything = yield from call("get_all", **ids, filters=filters, **extra)
        return list(everything.results)
    records: list[MemoryRecord] = []
    cursor: str | None = None
    while len(records) < limit:
        size = min(limit - len(records), _PAGE)
        page = yield from call(
            "get_all", **ids, filters=filters, limit=size, cursor=cursor, **extra
        )
        records += page.results
        cursor = page.next_cursor
        if cursor is None:
            break
    return records


def change(
    memory_id: str,
    text: str | None,
    data: str | None,
    metadata: Mapping[str, Any] | None,
    expiration_date: Any = UNSET,
) -> Flow[MemoryRecord]:
    """Update; the metadata is merged into what is there, as in Mem0 2.x.

    `expiration_date=None` means that it never expires.
    """
    until = None if expiration_date is UNSET else expires_at(expiration_date) or "never"
    merged = own_metadata(metadata)
    if merged is not None:
        current = yield from call("get", memory_id)
        if current is None:
            raise not_found(memory_id)
        merged = {**(current.metadata or {}), **merged}
    try:
        record: MemoryRecord = yield from call(
            "update", memory_id, text=text, data=data, metadata=merged, expires_at=until
        )
    except NotFoundError as error:
        raise not_found(memory_id, error) from error
    return record


def forget(memory_id: str) -> Flow[dict[str, Any]]:
    """Delete one memory."""
    try:
        yield from call("delete", memory_id)
    except NotFoundError as error:
        raise not_found(memory_id, error) from error
    return {"message": "Memory deleted successfully!"}


def events(memory_id: str) -> Flow[list[dict[str, Any]]]:
    """The history of one memory, in Mem0's rows."""
    rows = yield from call("history", memory_id)
    memory = None
    if rows and not rows[-1].is_deleted:
        memory = yield from call("get", memory_id)
    return _shape.history(rows, memory)


def not_found(memory_id: str, error: NotFoundError | None = None) -> MemoryNotFoundError:
    """Mem0's sentence for an unknown id."""
    return MemoryNotFoundError(
        f"Memory with id {memory_id} not found",
        status_code=error.status_code if error else 404,
        code=error.code if error else None,
        request_id=error.request_id if error else None,
    )
