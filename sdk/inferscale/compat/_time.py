"""Times as the other libraries write them: ISO 8601 strings."""

from datetime import datetime


def iso(time: datetime | str | None) -> str | None:
    """The time as a string; what is a string already stays as it is."""
    return time.isoformat() if isinstance(time, datetime) else time
