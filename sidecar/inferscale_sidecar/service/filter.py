"""Filters on a memory's fields: one evaluator for every caller.

Owns syntax and meaning (see `docs/http-api.md`). Filters only ever narrow a scope; they run before
ranking, so that the caller gets the `k` best of what passes. No value is a wildcard.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.store.conditions import AllOf, AnyOf, Condition, FieldTest, NoneOf


class Fields(Protocol):
    """What a predicate reads: a dict will do."""

    def get(self, key: str, default: Any, /) -> Any: ...


Predicate = Callable[[Fields], bool]

MAX_DEPTH = 16
MAX_CONDITIONS = 256
MAX_LIST = 10_000

_MISSING: Any = object()
_SCALARS = (str, int, float, bool, type(None))


def compile_filter(filters: Mapping[str, Any] | None) -> Predicate | None:
    """A predicate over a memory's fields; None if everything passes. Raises as `parse_filter`."""
    condition = parse_filter(filters)
    return None if condition is None else predicate(condition)


def parse_filter(filters: Mapping[str, Any] | None) -> Condition | None:
    """What must hold of a memory's fields; None if everything passes.

    Args:
        filters: `{"field": value}`, `{"field": {"operator": value}}`, `AND`, `OR`, `NOT`.

    Raises:
        InvalidInput: unknown operator, wrong type of value, or too large.
    """
    if not filters:
        return None
    return _Parser().group(filters, depth=0)


def predicate(condition: Condition) -> Predicate:
    """What tests a memory's fields."""
    if isinstance(condition, FieldTest):
        field = condition.field
        test = _OPERATORS[condition.operator](field, condition.value)
        return lambda doc: test(doc.get(field, _MISSING))
    parts = [predicate(part) for part in condition.parts]
    if isinstance(condition, AllOf):
        return parts[0] if len(parts) == 1 else lambda doc: all(part(doc) for part in parts)
    if isinstance(condition, AnyOf):
        return lambda doc: any(part(doc) for part in parts)
    return lambda doc: not any(part(doc) for part in parts)


class _Parser:
    """Counts conditions while it reads one filter."""

    def __init__(self) -> None:
        self._conditions = 0

    def group(self, filters: Any, *, depth: int) -> Condition:
        """An object: all its entries must hold."""
        if not isinstance(filters, Mapping) or not filters:
            raise _bad("a filter must be a non-empty object")
        if depth > MAX_DEPTH:
            raise _bad(f"filters are nested more than {MAX_DEPTH} deep; flatten them")
        return AllOf(tuple(self._entry(str(key), value, depth) for key, value in filters.items()))

    def _entry(self, key: str, value: Any, depth: int) -> Condition:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise _bad(f"more than {MAX_CONDITIONS} conditions; use in with a list, or fewer")
        if key in ("AND", "OR", "NOT"):
            return self._logical(key, value, depth)
        if isinstance(value, Mapping):
            return AllOf(tuple(_test(key, str(name), v) for name, v in _operators(key, value)))
        return _test(key, "in" if isinstance(value, list) else "eq", value)

    def _logical(self, name: str, value: Any, depth: int) -> Condition:
        groups = [value] if isinstance(value, Mapping) else value
        if not isinstance(groups, list) or not groups:
            raise _bad(f"{name} takes a non-empty list of filters")
        parts = tuple(self.group(group, depth=depth + 1) for group in groups)
        return _LOGICAL[name](parts)


_LOGICAL: dict[str, type[AllOf] | type[AnyOf] | type[NoneOf]] = {
    "AND": AllOf,
    "OR": AnyOf,
    "NOT": NoneOf,
}


def _operators(key: str, value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if not value:
        raise _bad(f"field {_name(key)} has an empty object for a condition; give an operator")
    return list(value.items())


def _test(key: str, operator: str, wanted: Any) -> FieldTest:
    make = _OPERATORS.get(operator)
    if make is None:
        raise _bad(
            f"unknown operator {_name(operator)} on field {_name(key)}; "
            f"the operators are {', '.join(_OPERATORS)}"
        )
    make(key, wanted)  # raises for a value that the operator does not take
    return FieldTest(key, operator, wanted)


def _equals(key: str, wanted: Any) -> Callable[[Any], bool]:
    _need(key, "eq", wanted, _SCALARS, "a string, number, boolean or null")
    return lambda value: any(_same(each, wanted) for each in _each(value))


def _is_in(key: str, wanted: Any) -> Callable[[Any], bool]:
    _need(key, "in", wanted, (list,), "a list")
    if len(wanted) > MAX_LIST:
        raise _bad(f"the list for field {_name(key)} has more than {MAX_LIST} values")
    for each in wanted:
        _need(key, "in", each, _SCALARS, "a list of strings, numbers, booleans or nulls")
    among = {_identity(each) for each in wanted}
    return lambda value: any(_identity(each) in among for each in _each(value))


def _contains(key: str, wanted: Any) -> Callable[[Any], bool]:
    _need(key, "contains", wanted, _SCALARS, "a string, or an element of a list")

    def test(value: Any) -> bool:
        if isinstance(value, list):
            return any(_same(each, wanted) for each in value)
        return isinstance(value, str) and isinstance(wanted, str) and wanted in value

    return test


def _contains_any_case(key: str, wanted: Any) -> Callable[[Any], bool]:
    _need(key, "icontains", wanted, (str,), "a string")
    folded = wanted.casefold()

    def test(value: Any) -> bool:
        if isinstance(value, list):
            return any(isinstance(each, str) and each.casefold() == folded for each in value)
        return isinstance(value, str) and folded in value.casefold()

    return test


def _compares(operator: str, holds: Callable[[Any, Any], bool]) -> Any:
    def make(key: str, wanted: Any) -> Callable[[Any], bool]:
        _need(key, operator, wanted, (str, int, float), "a number, or a string such as a date")
        if isinstance(wanted, bool):
            raise _bad(
                f"{operator} on field {_name(key)} takes a number or a string, not a boolean"
            )

        def test(value: Any) -> bool:
            pair = _comparable(value, wanted)
            return pair is not None and holds(*pair)

        return test

    return make


def _negated(make: Callable[[str, Any], Callable[[Any], bool]]) -> Any:
    def make_negated(key: str, wanted: Any) -> Callable[[Any], bool]:
        test = make(key, wanted)
        return lambda value: not test(value)

    return make_negated


_OPERATORS: dict[str, Callable[[str, Any], Callable[[Any], bool]]] = {
    "eq": _equals,
    "ne": _negated(_equals),
    "gt": _compares("gt", lambda a, b: a > b),
    "gte": _compares("gte", lambda a, b: a >= b),
    "lt": _compares("lt", lambda a, b: a < b),
    "lte": _compares("lte", lambda a, b: a <= b),
    "in": _is_in,
    "nin": _negated(_is_in),
    "contains": _contains,
    "icontains": _contains_any_case,
}


def _each(value: Any) -> list[Any]:
    """A list matches if one of its elements does; a missing field is null."""
    if value is _MISSING:
        return [None]
    return value if isinstance(value, list) else [value]


def _identity(value: Any) -> tuple[str, Any]:
    """Equal for equal JSON values: 1 is 1.0, but neither is true."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (int, float)):
        return ("number", value)
    return (type(value).__name__, value if isinstance(value, str) else None)


def _same(value: Any, wanted: Any) -> bool:
    return _identity(value) == _identity(wanted) and not isinstance(value, (dict, list))


def _comparable(value: Any, wanted: Any) -> tuple[Any, Any] | None:
    """The pair to compare: two numbers, two times, or two strings; None if they have no order."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
        return value, wanted
    if isinstance(value, str) and isinstance(wanted, str):
        times = _time(value), _time(wanted)
        return (value, wanted) if None in times else times
    return None


def _time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _need(key: str, operator: str, value: Any, types: tuple[type, ...], what: str) -> None:
    if not isinstance(value, types):
        raise _bad(f"{operator} on field {_name(key)} takes {what}, not {type(value).__name__}")


def _name(text: str) -> str:
    """A client's name for something, short enough for a message."""
    return ascii(text if len(text) <= 64 else text[:61] + "...")


def _bad(message: str) -> InvalidInput:
    return InvalidInput(message, param="filters")
