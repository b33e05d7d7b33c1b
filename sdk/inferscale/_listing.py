"""`get_all`: which list a call means, and the request for one of its pages.

Owns which of two requests is sent: a list without filters is one that every sidecar knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from inferscale._dialect import Scope, reject_unsupported, split_filters
from inferscale._operation import Operation, reads
from inferscale._results import ListResult
from inferscale._validate import encode_model
from inferscale.protocol import memory as wire


@dataclass(frozen=True)
class Listing:
    """A scope, what must hold of its memories, and which moment is read."""

    scope: Mapping[str, str]
    filters: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)


Time = datetime | str | None
"""A time with its offset, or ISO 8601."""


def reading(show_expired: bool = False, as_of: Time = None) -> dict[str, str]:
    """Which moment is read, as query parameters; empty for the present."""
    found = {"show_expired": "true"} if show_expired else {}
    if as_of is not None:
        found["as_of"] = as_of.isoformat() if isinstance(as_of, datetime) else as_of
    return found


def listing(
    scope: Scope,
    filters: Mapping[str, Any] | None,
    moment: Mapping[str, str],
    extra: Mapping[str, Any],
) -> Listing:
    """Ids may stand in `filters`, as in Mem0 2.x. Raises InvalidArgumentError without one."""
    reject_unsupported("get_all", extra)
    ids, rest = split_filters(filters, scope)
    return Listing(ids, rest, moment)


def list_page(
    listing: Listing, *, limit: int | None, cursor: str | None, offset: int | None = None
) -> Operation[ListResult]:
    """One page; the first without a cursor."""
    page = {"limit": limit, "cursor": cursor, "offset": offset}
    asked = {name: value for name, value in page.items() if value is not None}
    if listing.filters:
        fields = {**listing.scope, **listing.reading, **asked, "filters": listing.filters}
        content = encode_model(wire.ListRequest, fields)
        return Operation("POST", "/v1/memories/list", reads(ListResult), content=content)
    params = {**listing.scope, **listing.reading, **{n: str(v) for n, v in asked.items()}}
    return Operation("GET", "/v1/memories", reads(ListResult), params=params)
