"""Which page of a list a request wants."""

from pydantic import BaseModel, Field

MAX_PAGE = 1_000


class Paging(BaseModel):
    """By cursor, which is the faster, or by offset."""

    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: str | None = Field(default=None, max_length=80)
    offset: int = Field(default=0, ge=0, le=10_000_000)
    """How many of the newest to leave out; goes with no cursor."""
