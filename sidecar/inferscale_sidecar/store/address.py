"""Database addresses: which are accepted, and how they are shown.

Invariant: no message from here repeats an address as it was given, because it may hold a password;
`shown` leaves out the password and all options, which may hold others.
"""

from importlib.util import find_spec

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from inferscale_sidecar.errors import ConfigError

POSTGRES, SQLITE = "postgresql+psycopg", "sqlite+aiosqlite"
_DRIVERS = {
    "postgres": POSTGRES,
    "postgresql": POSTGRES,
    "postgresql+psycopg": POSTGRES,
    "sqlite": SQLITE,
    "sqlite+aiosqlite": SQLITE,
}


def parse_address(url: str) -> URL:
    """The address, with the driver that we use.

    Args:
        url: `postgresql://user@host/name`, `postgres://…`, `sqlite:////path/to/file`, or the same
            with the driver named (`postgresql+psycopg`, `sqlite+aiosqlite`).

    Raises:
        ConfigError: not an address, another database, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(
            "store.url is not a database address; write postgresql://user:password@host/name (with "
            "special characters of the password percent-encoded) or sqlite+aiosqlite:////path",
            param="store.url",
        ) from None  # the cause would repeat parts of it
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise ConfigError(
            f"store.url names {parsed.drivername[:64]!r}; use postgresql://… or sqlite+aiosqlite://…",
            param="store.url",
        )
    if driver == POSTGRES and find_spec("psycopg") is None:
        raise ConfigError(
            "store.url is a PostgreSQL database, but its driver is not installed; "
            "pip install 'inferscale-memory[postgres]'",
            param="store.url",
        )
    return parsed.set(drivername=driver)


def shown(url: URL) -> str:
    """The address without password and options."""
    return url.set(query={}).render_as_string(hide_password=True)
