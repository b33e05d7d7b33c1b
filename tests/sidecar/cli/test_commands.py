"""Commands, from the command line to the exit code, without an engine."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferscale_sidecar.cli.app import run
from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore, sqlite_url
from inferscale_sidecar.store.records import Draft

Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command with --json in a home of its own; its exit code and its document."""
    monkeypatch.setenv("INFERSCALE_HOME", str(tmp_path))
    monkeypatch.delenv("INFERSCALE_API_KEY", raising=False)

    def call(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


def test_version(cli: Run) -> None:
    code, found = cli("version")
    assert code == 0
    assert {"inferscale", "python", "vllm"} <= set(found)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["frobnicate"], "No such command"),
        (["start", "--port", "many"], "many"),
        (["start", "--colour"], "No such option"),
        (["keys", "create"], "Missing argument"),
        (["start", "--set", "x"], "not KEY=VALUE"),
        (["start", "--set", "server.prot=1"], "unknown setting server.prot (from command line)"),
        (["start", "--config", "/absent.toml"], "/absent.toml"),
        (["start", "--engine-url", "http://127.0.0.1:9"], "needs the secret"),
    ],
)
def test_wrong_usage_is_2_and_still_json(cli: Run, words: list[str], part: str) -> None:
    code, problem = cli(*words)
    assert code == 2
    assert part in problem["message"]


def test_run_needs_a_command() -> None:
    assert run(["run"]) == 2


def test_status_of_nothing_is_3(cli: Run) -> None:
    code, problem = cli("status", "--url", "http://127.0.0.1:9")
    assert code == 3
    assert problem["code"] == "engine_unavailable"
    assert "inferscale-sidecar start" in problem["remedy"]


def test_keys_are_made_listed_and_revoked(cli: Run) -> None:
    code, made = cli("keys", "create", "laptop")
    assert code == 0
    assert made["secret"].startswith("isk_")
    assert made["scopes"] == "read write"
    _, listed = cli("keys", "list")
    assert [key["name"] for key in listed["keys"]] == ["laptop"]
    assert made["secret"] not in json.dumps(listed)
    assert cli("keys", "revoke", made["id"]) == (
        0,
        {"schema": 1, "id": made["id"], "revoked": True},
    )
    _, listed = cli("keys", "list")
    assert listed["keys"][0]["revoked_at"] is not None


def test_tenants_are_made_and_listed_and_have_keys_of_their_own(cli: Run) -> None:
    code, made = cli("tenants", "create", "acme")
    assert code == 0
    _, listed = cli("tenants", "list")
    assert [tenant["name"] for tenant in listed["tenants"]] == ["default", "acme"]
    assert cli("keys", "create", "laptop", "--tenant", "acme")[0] == 0
    assert len(cli("keys", "list", "--tenant", made["id"])[1]["keys"]) == 1
    assert cli("keys", "list")[1]["keys"] == []
    assert cli("tenants", "create", "acme")[0] == 1
    assert cli("tenants", "create", "")[0] == 2


def _limits(report: Any) -> dict[str, tuple[Any, str, Any]]:
    return {row["limit"]: (row["value"], row["from"], row["used"]) for row in report["limits"]}


def test_limits_are_shown_set_and_left_to_the_settings_again(cli: Run) -> None:
    code, report = cli("tenants", "limits", "--set", "limits.text_bytes=1KiB")
    assert code == 0
    assert _limits(report)["memories"] == (None, "settings", 0)
    assert _limits(report)["text_bytes"] == (1024, "settings", 0)
    assert _limits(report)["streams"] == (None, "settings", None)
    code, report = cli("tenants", "limits", "default", "--limit", "memories=5")
    assert (code, _limits(report)["memories"]) == (0, (5, "tenant", 0))
    _, report = cli("tenants", "limits", "--default", "memories")
    assert _limits(report)["memories"] == (None, "settings", 0)


def test_limits_that_make_no_sense_are_refused(cli: Run) -> None:
    for wrong in (
        "memories",
        "memories=-1",
        "memories=many",
        "height=3",
        "memories=99999999999999999",
    ):
        assert cli("tenants", "limits", "--limit", wrong)[0] == 2
    assert cli("tenants", "limits", "nobody")[0] == 1
    assert cli("tenants", "limits", "--default", "height")[0] == 2


def test_key_errors(cli: Run) -> None:
    assert cli("keys", "list", "--tenant", "nobody")[0] == 1
    assert cli("keys", "revoke", "nothing")[0] == 1
    assert cli("keys", "create", "x", "--scope", "root")[0] == 2
    assert cli("keys", "list")[1]["keys"] == []


def test_doctor_names_a_wrong_setting_and_fails(cli: Run) -> None:
    code, report = cli("doctor", "--set", "server.port=x")
    assert code == 1
    assert report["checks"] == [
        {
            "code": "IS001",
            "level": "fail",
            "what": "settings: server.port = 'x' (from command line): Input should be a valid "
            "integer, unable to parse string as an integer",
            "remedy": "",
        }
    ]


def test_an_export_goes_from_one_tenant_to_another(cli: Run, tmp_path: Path) -> None:
    asyncio.run(_remember(tmp_path / "inferscale.db"))
    file = str(tmp_path / "all.jsonl")
    code, told = cli("export", "-o", file)
    assert (code, told["bytes"]) == (0, Path(file).stat().st_size)
    assert Path(file).stat().st_mode & 0o077 == 0
    assert cli("tenants", "create", "acme")[0] == 0
    code, report = cli("import", file, "--tenant", "acme", "--dry-run")
    assert (code, report["memories"], report["dry_run"]) == (0, 1, True)
    assert cli("export", "--app", "mail", "-o", file)[0] == 0
    assert cli("import", file, "--dry-run")[1]["memories"] == 0
    assert cli("export", "--user", "bob", "-o", file)[0] == 0
    assert cli("import", file, "--dry-run")[1]["memories"] == 0


def test_import_says_what_is_wrong_with_a_file(cli: Run, tmp_path: Path) -> None:
    assert cli("import", str(tmp_path / "absent"))[0] == 2
    (tmp_path / "bad").write_text("hello\n")
    code, problem = cli("import", str(tmp_path / "bad"))
    assert (code, problem["code"]) == (2, "invalid_request")
    assert cli("export", "-o", str(tmp_path / "no" / "folder"))[0] == 2
    assert cli("export", "--tenant", "nobody", "-o", str(tmp_path / "x"))[0] == 1


async def _remember(database: Path) -> None:
    store = SqlStore(sqlite_url(database))
    await store.start()
    draft = Draft("likes tea", np.ones(4, dtype=np.float32) / 2)
    await store.add_memories("default", Scope("alice"), [draft])
    await store.close()
