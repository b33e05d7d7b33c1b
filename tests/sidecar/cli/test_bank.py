"""`bank`: what it says of banks, and that it spoils none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferscale_sidecar.cli.app import run
from inferscale_vllm.bank import Bank, ItemHeader, checksum

Call = Callable[..., tuple[int, Any]]


@pytest.fixture
def cli(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str, as_json: bool = True) -> tuple[int, Any]:
        capfd.readouterr()
        argv = ["bank", *words, "--set", f"engine.bank_dir={tmp_path}"]
        code = run([*argv, "--json"] if as_json else argv)
        out = capfd.readouterr()
        return code, json.loads(out.out) if as_json else out.out + out.err

    return call


def fill(tmp_path: Path, *, items: int = 4) -> Path:
    path = tmp_path / ("ab" * 16) / "rank0"
    bank = Bank(path, limit_bytes=2**26, fingerprint="ab" * 32)
    bank.file.write_note("model", "demo")
    for number in range(items):
        kv = bytes([number]) * 100_000
        header = ItemHeader(5, 0, len(kv), checksum(kv), np.arange(5, dtype=np.int32))
        bank.put({f"{number:064x}": (header, memoryview(kv))})
    bank.retire([f"{0:064x}"])
    bank.close()
    return path


def test_no_bank_is_no_error(cli: Call) -> None:
    code, found = cli("stats")
    assert code == 0 and found["banks"] == [] and found["schema"] == 1
    assert "no bank in" in cli("stats", as_json=False)[1]


def test_stats_verify_purge_compact(cli: Call, tmp_path: Path) -> None:
    fill(tmp_path)
    code, found = cli("stats")
    [row] = found["banks"]
    assert code == 0 and (row["model"], row["rank"], row["items"]) == ("demo", 0, 4)
    assert row["limit_bytes"] == 2**26 and not row["in_use"] and row["used_bytes"] > 400_000
    assert cli("verify")[1]["banks"][0]["ok"]
    [purged] = cli("purge")[1]["banks"]
    assert (purged["erased"], purged["items"]) == (1, 3)
    assert cli("stats")[1]["banks"][0]["items"] == 3
    code, found = cli("compact")
    assert code == 0 and found["banks"][0]["freed_bytes"] >= 100_000
    assert cli("verify")[1]["banks"][0]["ok"]
    assert cli("stats", "--namespace", "ffff")[1]["banks"] == []
    text = cli("stats", as_json=False)[1]
    assert "demo" in text and "64.0" in text


def test_a_broken_item_is_found(cli: Call, tmp_path: Path) -> None:
    path = fill(tmp_path) / "data.mdb"
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(content.index(bytes([2]) * 1000))
        file.write(b"\xff" * 10)
    code, found = cli("verify")
    assert code == 1 and "fails its checksum" in found["banks"][0]["problems"][0]
    code, text = cli("verify", as_json=False)
    assert code == 1 and f"{2:064x} fails its checksum" in text


def test_everything_needs_a_yes(cli: Call, tmp_path: Path) -> None:
    fill(tmp_path)
    code, problem = cli("purge", "--everything")
    assert code == 2 and "--yes" in problem["remedy"]
    code, found = cli("purge", "--everything", "--yes")
    assert code == 0 and (found["banks"][0]["erased"], found["banks"][0]["items"]) == (4, 0)


def test_compaction_while_the_engine_runs_is_refused(cli: Call, tmp_path: Path) -> None:
    engine = Bank(fill(tmp_path), limit_bytes=2**26, fingerprint="ab" * 32)
    code, found = cli("compact")
    assert code == 1 and "in use" in found["banks"][0]["refused"]
    assert cli("stats")[1]["banks"][0]["in_use"]
    assert cli("purge")[1]["banks"][0]["erased"] == 1
    assert engine.check_integrity() == [] and len(engine.keys()) == 3
    engine.close()


def test_an_interpreter_without_the_engine_half(cli: Call, tmp_path: Path) -> None:
    code, problem = cli("stats", "--set", "engine.python=/absent/python")
    assert (
        code == 1 and problem["code"] == "bank_tool_failed" and "engine.python" in problem["remedy"]
    )
