"""Mem0's spellings: both dialects (up to 1.x, from 2.0) become one set of arguments.

Owns what is accepted, and the sentence for each argument that cannot be honoured. Invariant:
nothing is dropped silently, and a scope is never widened.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from inferscale._validate import explain
from inferscale.errors import InvalidArgumentError
from inferscale.protocol.memory import SCOPE_IDS, Id

Scope = Mapping[str, str | None]
"""The ids of a scope as a method got them; None means not given."""

ID_NAMES = f"{', '.join(SCOPE_IDS[:-1])} or {SCOPE_IDS[-1]}"
"""As messages name them."""

_ID: TypeAdapter[str] = TypeAdapter(Id)

_UNSUPPORTED = {
    "timestamp": "memories carry the time at which they are added; put another one into metadata",
    "expiration_date": "give expires_at, a time with its offset, or ttl_s",
    "memory_type": "there is one type of memory; put a label into metadata",
    "prompt": "extraction is set up on the sidecar, not per call",
    "llm": "extraction runs on the sidecar's engine",
    "reference_date": "search weighs time by recency_days, and reads the past by as_of",
    "enable_graph": "there is no graph",
    "version": "there is one format of results",
    "output_format": "there is one format of results",
}


def reject_unsupported(method: str, extra: Mapping[str, Any]) -> None:
    """Raise for arguments of Mem0 that InferScale has not, unless they ask for nothing.

    Args:
        method: name for the message.
        extra: keyword arguments that the method does not know.

    Raises:
        InvalidArgumentError: an argument that asks for something we cannot do.
        TypeError: an argument that nobody knows.
    """
    for name, value in extra.items():
        if name not in _UNSUPPORTED:
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")
        if value is not None and value is not False:
            raise InvalidArgumentError(
                f"{method}({name}={value!r}) cannot be honoured: {_UNSUPPORTED[name]}."
            )


def split_filters(
    filters: Mapping[str, Any] | None, scope: Scope
) -> tuple[dict[str, str], dict[str, Any]]:
    """(the ids, the remaining filters). Ids may stand in `filters` (2.x) or beside them (1.x).

    Raises:
        InvalidArgumentError: no id, two different ones, or one that names more than one scope.
    """
    rest = dict(filters or {})
    ids: dict[str, str] = {}
    for name in SCOPE_IDS:
        named = [_one_id(name, rest.pop(name))] if name in rest else []
        named += [_one_id(name, scope[name])] if scope.get(name) is not None else []
        if len(set(named)) > 1:
            raise InvalidArgumentError(
                f"{name} is both {named[1]!r} and, in filters, {named[0]!r}."
            )
        if named:
            ids[name] = named[0]
    if not ids:
        raise InvalidArgumentError(
            f"no {ID_NAMES}; at least one must say whose memories are meant."
        )
    _reject_nested_ids(rest)
    return ids, rest


def scope_ids(scope: Scope) -> dict[str, str]:
    """The ids that are given; at least one. Raises InvalidArgumentError otherwise."""
    return split_filters(None, scope)[0]


def optional_ids(scope: Scope) -> dict[str, str]:
    """The ids that are given, if any."""
    return scope_ids(scope) if any(value is not None for value in scope.values()) else {}


def one_limit(default: int | None, **spellings: int | None) -> int | None:
    """The one value given under any of several names, or `default`.

    Raises:
        InvalidArgumentError: two names with different values.
    """
    given = {name: value for name, value in spellings.items() if value is not None}
    if len(set(given.values())) > 1:
        raise InvalidArgumentError(f"{given} are names of one thing; give one of them.")
    return next(iter(given.values()), default)


def _one_id(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise InvalidArgumentError(
            f"{name} is {value!r}; it must be one string. None would mean everybody's, "
            "and operators and lists are for metadata only."
        )
    try:
        return _ID.validate_python(str(value))
    except ValidationError as error:
        raise InvalidArgumentError(f"{name}: {explain(error)}.") from None


def _reject_nested_ids(filters: object) -> None:
    """An id below AND, OR or NOT would not bind the scope, so it must not look as if it did."""
    if isinstance(filters, Mapping):
        for name, value in filters.items():
            if name in SCOPE_IDS:
                raise InvalidArgumentError(
                    f"{name} stands inside AND, OR or NOT; put it at the top level of filters, "
                    f"or pass {name}=…."
                )
            _reject_nested_ids(value)
    elif isinstance(filters, list | tuple):
        for value in filters:
            _reject_nested_ids(value)
