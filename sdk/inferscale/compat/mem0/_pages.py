"""The platform's numbered pages over the SDK's offsets."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import InvalidArgumentError
from inferscale.compat._flow import Flow, call
from inferscale.compat.mem0 import _shape

_PAGE_SIZE = 100


def numbered(
    ids: Mapping[str, Any],
    filters: Mapping[str, Any] | None,
    number: int | None,
    size: int | None,
    fields: Sequence[str] | None,
    extra: Mapping[str, Any],
) -> Flow[dict[str, Any]]:
    """One page, newest memories first; `number` counts from 1."""
    number, size = _check(1 if number is None else number, _PAGE_SIZE if size is None else size)
    start = (number - 1) * size
    listing = yield from call(
        "get_all", **ids, filters=filters, limit=size, offset=start or None, **extra
    )
    return page(
        listing.results,
        listing.total,
        following=(number + 1, size) if start + size < listing.total else None,
        previous=(number - 1, size) if number > 1 else None,
        fields=fields,
    )


def _check(page: Any, size: Any) -> tuple[int, int]:
    for name, value in (("page", page), ("page_size", size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidArgumentError(f"{name} is {value!r}; it must be an integer >= 1.")
    return page, size


def page(
    records: Sequence[Any],
    count: int,
    *,
    following: tuple[int, int] | None = None,
    previous: tuple[int, int] | None = None,
    fields: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The answer of the platform's `get_all`."""
    return {
        "count": count,
        "next": _link(following),
        "previous": _link(previous),
        "results": [only(fields, _shape.item(record)) for record in records],
    }


def _link(page: tuple[int, int] | None) -> str | None:
    """Not an address of the sidecar: the arguments that give that page."""
    return f"?page={page[0]}&page_size={page[1]}" if page else None


def only(fields: Sequence[str] | None, item: dict[str, Any]) -> dict[str, Any]:
    """The item with these fields, or with all."""
    return {name: item[name] for name in fields if name in item} if fields else item
