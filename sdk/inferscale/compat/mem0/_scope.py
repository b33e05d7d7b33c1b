"""Whose memories a call of Mem0's means, and what is left of its filters.

Owns where ids may stand: as arguments, at the top of `filters`, or in its AND. Invariant: the scope
is never wider than what was written; an id that would have to be one of several is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from inferscale import SCOPE_IDS, InvalidArgumentError

ID_NAMES = SCOPE_IDS
Ids = Mapping[str, Any]


def read_scope(ids: Ids, filters: Any = None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(ids for the SDK, the remaining filters or None).

    Raises:
        InvalidArgumentError: two different values of one id, or one that is not a single id. (An id
            that is missing or malformed is left to the SDK, which says so.)
    """
    found: dict[str, Any] = {}
    rest: list[dict[str, Any]] = []
    for condition in _conditions(filters):
        left = dict(condition)
        for name in ID_NAMES:
            if name in left:
                _join(found, name, left.pop(name))
        if left:
            rest.append(_without_wildcards(left))
    for name in ID_NAMES:
        if ids.get(name) is not None:
            _join(found, name, ids[name])
    return found, _all_of(rest)


def _conditions(filters: Any) -> Iterator[Mapping[str, Any]]:
    """The parts of a filter that must all hold: the object itself, and what its ANDs list."""
    if filters is None:
        return
    if not isinstance(filters, Mapping):
        raise InvalidArgumentError(
            f"filters is a {type(filters).__name__}; it must be a dict such as "
            "{'user_id': 'alice', 'topic': 'food'}."
        )
    rest = {name: value for name, value in filters.items() if name != "AND"}
    if rest:
        yield rest
    parts = filters.get("AND", [])
    if not isinstance(parts, list | tuple):
        raise InvalidArgumentError("AND takes a list of filters.")
    for part in parts:
        yield from _conditions(part)


def _join(found: dict[str, Any], name: str, value: Any) -> None:
    value = _one_id(name, value)
    if found.setdefault(name, value) != value:
        raise InvalidArgumentError(f"{name} is both {found[name]!r} and {value!r}; give one.")


def _one_id(name: str, value: Any) -> str:
    """Mem0 takes numbers and surrounding blanks; None, lists and operators name no single scope."""
    if value is None or isinstance(value, bool | Mapping | list | tuple | set):
        raise InvalidArgumentError(
            f"{name} is {value!r}; it must be one id. Ask once for each of several, and leave it "
            "out to mean any."
        )
    return str(value).strip()


def _without_wildcards(filters: Any) -> Any:
    """In Mem0 `{"topic": "*"}` means that there is a topic; here that is `{"ne": null}`."""
    if isinstance(filters, Mapping):
        return {
            name: {"ne": None}
            if value == "*" and name not in ID_NAMES
            else _without_wildcards(value)
            if name in ("AND", "OR", "NOT")
            else value
            for name, value in filters.items()
        }
    if isinstance(filters, list | tuple):
        return [_without_wildcards(part) for part in filters]
    return filters


def _all_of(conditions: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return {"AND": conditions}
