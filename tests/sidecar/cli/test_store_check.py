"""`doctor` on the database, and that no password is ever shown."""

from pathlib import Path
from typing import Any

import pytest
from tests.sidecar.databases import PostgresServer

from inferscale_sidecar.cli.store_check import check_store
from inferscale_sidecar.config import Config, load
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store.address import parse_address, shown

SECRET = "pass/w%40rd"


def settings(tmp_path: Path, url: str, **more: Any) -> Config:
    return load({"store.url": url, **more}, env={"INFERSCALE_HOME": str(tmp_path)})


def test_a_file_that_is_not_there_yet_is_fine_and_is_not_made(tmp_path: Path) -> None:
    check = check_store(settings(tmp_path, ""))
    assert check.level == "ok" and "first start" in check.what
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "inferscale.db").write_bytes(b"no database" * 1000)
    check = check_store(settings(tmp_path, ""))
    assert (check.code, check.level) == ("IS013", "fail")
    assert check.remedy


def test_a_server_is_named_with_its_version(
    tmp_path: Path, postgres_backend: PostgresServer
) -> None:
    url = postgres_backend.create()
    check = check_store(settings(tmp_path, url))
    # The server of these tests runs without fsync, which is what an operator should know.
    assert check.level == "warn" and "fsync is off" in check.what
    assert "PostgreSQL 1" in check.what
    made = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert postgres_backend.execute(made, url.partition("@/")[2].partition("?")[0]) == []
    postgres_backend.drop(url)


def test_a_user_that_may_not_make_tables_is_told_what_is_missing(
    tmp_path: Path, postgres_backend: PostgresServer
) -> None:
    url = postgres_backend.create()
    postgres_backend.execute("CREATE ROLE guest LOGIN")
    check = check_store(settings(tmp_path, url.replace("postgres@", "guest@")))
    assert check.level == "warn" and "may not make any" in check.what
    assert "GRANT" in check.remedy
    postgres_backend.drop(url)
    postgres_backend.execute("DROP ROLE guest")


def test_a_server_that_is_not_there_fails_without_a_password(tmp_path: Path) -> None:
    url = f"postgresql://app:{SECRET.replace('/', '%2F')}@127.0.0.1:1/x?connect_timeout=1"
    check = check_store(settings(tmp_path, url))
    assert check.level == "fail" and "127.0.0.1:1/x" in check.what
    assert "check that the server runs" in check.remedy
    assert "pass" not in check.what.replace("password", "") + str(settings(tmp_path, url))


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgres://u@h/d", "postgresql+psycopg"),
        ("postgresql://u@h/d", "postgresql+psycopg"),
        ("postgresql+psycopg://u@h/d", "postgresql+psycopg"),
        ("sqlite:////tmp/x.db", "sqlite+aiosqlite"),
    ],
)
def test_addresses_are_taken_as_people_write_them(url: str, driver: str) -> None:
    assert parse_address(url).drivername == driver


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{SECRET}@h/d",
        f"postgresql+asyncpg://u:{SECRET}@h/d",
        f"postgresql://u:{SECRET}@h:{SECRET}/d",
        f"{SECRET}",
    ],
)
def test_wrong_addresses_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(ConfigError, match=r"store\.url") as raised:
        parse_address(url)
    assert SECRET not in str(raised.value) and "w@rd" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_what_is_shown_has_neither_password_nor_options() -> None:
    url = parse_address("postgresql://app:secret@h:5433/d?password=secret&sslpassword=secret")
    assert shown(url) == "postgresql+psycopg://app:***@h:5433/d"
