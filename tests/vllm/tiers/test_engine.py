"""Arenas in a real vLLM: it asks again for a cold request, and a hot one waits for nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.vllm.tiers.cpu_connector"]
    command.append(str(tmp_path_factory.mktemp("arenas")))
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return found


def test_everything_is_injected_and_reads_back(seen: dict[str, Any]) -> None:
    for step in seen["steps"]:
        assert (step["report"]["injected"], step["report"]["reason"]) == (seen["span"], None)
        assert step["report"]["max_error"] == 0.0


def test_only_the_cold_request_is_put_off(seen: dict[str, Any]) -> None:
    assert [step["delayed"] for step in seen["steps"]] == [1, 1, 1]
    assert [step["injections"] for step in seen["steps"]] == [1, 2, 2]
    cold, hot, _ = seen["steps"]
    assert cold["tiers"]["host"]["items"] == 5, "the prefix and four items"
    assert cold["tiers"]["hbm"]["used_bytes"] > 0
    assert cold["tiers"]["fetched_bytes"] == hot["tiers"]["fetched_bytes"] > 0


def test_arenas_change_no_answer(seen: dict[str, Any]) -> None:
    _, hot, bank = seen["steps"]
    assert hot["answer"] == bank["answer"]
