"""Filters of the document store, as LangGraph's stores read them.

Owns their syntax and meaning. They differ from the filters of memories (`filter`): operators begin
with `$`, and only the top level of a document is named. A comparison without an order is false.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inferscale_sidecar.errors import InvalidInput

Predicate = Callable[[Mapping[str, Any]], bool]
MAX_DEPTH = 16

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda a, b: bool(a > b),
    "$gte": lambda a, b: bool(a >= b),
    "$lt": lambda a, b: bool(a < b),
    "$lte": lambda a, b: bool(a <= b),
}
_OPERATORS = ("$eq", "$ne", *_COMPARE)


def compile_document_filter(filters: Mapping[str, Any] | None) -> Predicate:
    """A predicate over a document's value; everything passes without a filter.

    Args:
        filters: `{"field": value}` or `{"field": {"$operator": value}}`; all entries must hold.

    Raises:
        InvalidInput: unknown operator, or nested too deep.
    """
    given = dict(filters or {})
    for name, wanted in given.items():
        _check(name, wanted, depth=0)
    return lambda value: all(_matches(value.get(name), w) for name, w in given.items())


def _check(name: str, wanted: Any, *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"filter: nested more than {MAX_DEPTH} deep; flatten it", param="filter")
    if isinstance(wanted, list):
        for each in wanted:
            _check(name, each, depth=depth + 1)
    if not isinstance(wanted, Mapping):
        return
    if any(key.startswith("$") for key in wanted):
        unknown = next((key for key in wanted if key not in _OPERATORS), None)
        if unknown is not None:
            raise InvalidInput(
                f"filter: unknown operator {unknown[:64]!a} on field {name[:64]!a}; "
                f"the operators are {', '.join(_OPERATORS)}",
                param="filter",
            )
        return
    for key, each in wanted.items():
        _check(key, each, depth=depth + 1)


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(_holds(value, operator, each) for operator, each in wanted.items())
        return isinstance(value, Mapping) and all(
            _matches(value.get(key), each) for key, each in wanted.items()
        )
    if isinstance(wanted, list):
        if not isinstance(value, list) or len(value) != len(wanted):
            return False
        return all(_matches(v, w) for v, w in zip(value, wanted, strict=True))
    return bool(value == wanted)


def _holds(value: Any, operator: str, wanted: Any) -> bool:
    if operator == "$eq":
        return bool(value == wanted)
    if operator == "$ne":
        return bool(value != wanted)
    a, b = _number(value), _number(wanted)
    if a is not None and b is not None:
        return _COMPARE[operator](a, b)
    # LangGraph's own stores raise here, or compare as text; dates are why text is of use.
    both_text = isinstance(value, str) and isinstance(wanted, str)
    return both_text and _COMPARE[operator](value, wanted)


def _number(value: Any) -> float | None:
    """What LangGraph's in-memory store compares: numbers, and text that spells one."""
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
