"""The requests that list users, agents, runs and apps. Pure, as `_operations`."""

from typing import Any

from inferscale._exchange import PAGE_SIZE, Flow, every_page
from inferscale._operation import Operation, reads
from inferscale._results import EntityList
from inferscale._retry import RetryPolicy
from inferscale.protocol.entities import EntityType


def list_page(
    type: EntityType | None, *, limit: int | None, cursor: str | None
) -> Operation[EntityList]:
    given = {"type": type, "limit": limit, "cursor": cursor}
    params = {name: str(value) for name, value in given.items() if value is not None}
    return Operation("GET", "/v1/entities", reads(EntityList), params=params)


def list_all(type: EntityType | None, policy: RetryPolicy) -> Flow[EntityList]:
    """All pages as one."""

    def page_at(cursor: str | None) -> Operation[Any]:
        return list_page(type, limit=PAGE_SIZE, cursor=cursor)

    results, total = yield from every_page(page_at, policy)
    return EntityList(results=results, total=total)
