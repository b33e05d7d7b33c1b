"""Mem0's expiration dates over our times: a date means the end of that day in UTC."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from inferscale import InvalidArgumentError

UNSET: Any = object()
"""An argument that was not given, where None means something."""


def expires_at(expiration_date: Any) -> datetime | None:
    """When a memory with this date expires: midnight after it, UTC. None: never.

    Raises:
        InvalidArgumentError: not a date, not YYYY-MM-DD, and not a time with its offset.
    """
    value = expiration_date
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
        except ValueError:
            value = UNSET
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidArgumentError(
                f"expiration_date is {value.isoformat()!r}, a time without an offset; give a date, "
                "or a time such as 2027-01-01T12:00:00+00:00."
            )
        return value
    if isinstance(value, date):
        return datetime.combine(value + timedelta(days=1), time.min, UTC)
    if value is None:
        return None
    raise InvalidArgumentError(
        f"expiration_date is {expiration_date!r}; it must be a date such as '2027-01-31'."
    )


def expiration_date(expires_at: datetime) -> str:
    """The last day, in UTC, of which it is there at least a part."""
    return (expires_at.astimezone(UTC) - timedelta(microseconds=1)).date().isoformat()
