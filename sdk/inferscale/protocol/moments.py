"""Time in memory requests: how long a memory lives, and which moment is read."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Self

from pydantic import AwareDatetime, BaseModel, Field, model_validator

MAX_TTL_S = 100 * 366 * 86_400


def end_of_day(day: date) -> datetime:
    """Midnight after a day, in UTC: when what Mem0 dates with that day expires."""
    return datetime.combine(day + timedelta(days=1), time.min, UTC)


class Lifetime(BaseModel):
    """Until when a memory is there. Neither field: for good."""

    expires_at: AwareDatetime | None = None
    """From then on it is not there, for any reader; with its offset."""
    ttl_s: int | None = Field(default=None, ge=1, le=MAX_TTL_S)
    """The same in seconds from the time at which the request arrives."""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.expires_at is not None and self.ttl_s is not None:
            raise ValueError("expires_at and ttl_s are two ways to say one thing; give one of them")
        return self


class AsOf(BaseModel):
    """A moment in the past."""

    as_of: AwareDatetime | None = None
    """Read what was there at this time, in the texts of that time. None, or a time to come: now."""


class Reading(AsOf):
    """Which moment a request reads."""

    show_expired: bool = False
    """True: also what has expired, as long as it is not removed for good."""

    @model_validator(mode="after")
    def _one_moment(self) -> Self:
        if self.show_expired and self.as_of is not None:
            raise ValueError("show_expired is about the present; leave it or as_of out")
        return self
