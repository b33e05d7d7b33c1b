"""Alembic migrations of the store: run when the service starts, up and down."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from inferscale_sidecar.errors import ConfigError


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the schema up to `revision`, inside the caller's transaction.

    Raises:
        ConfigError: the database was written by a newer release.
    """
    try:
        command.upgrade(_config(connection), revision)
    except CommandError as error:
        raise ConfigError(
            f"this database cannot be migrated: {error}; it was probably written by a newer "
            "release of the sidecar. Start that release, or use another data folder"
        ) from error


def downgrade(connection: Connection, revision: str) -> None:
    """Take the schema back to `revision` (`base` = empty), inside the caller's transaction."""
    command.downgrade(_config(connection), revision)
