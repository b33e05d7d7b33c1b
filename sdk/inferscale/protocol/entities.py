"""`GET /v1/entities`: of whom a tenant has memories."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

EntityType = Literal["user", "agent", "run", "app"]
"""An id of a scope, without `_id`."""


class Entity(BaseModel):
    """A user, an agent, a run or an app with at least one memory that is found."""

    type: EntityType
    id: str
    memories: int
    created_at: datetime
    """When the first of its memories was added."""
    updated_at: datetime
    """When one of them was last changed."""


class EntityListResponse(BaseModel):
    """A page, oldest first. `next_cursor` is None on the last page."""

    results: list[Entity]
    total: int
    next_cursor: str | None = None
