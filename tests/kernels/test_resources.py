"""The kernels compile for GPUs that are not here, and need what the committed table says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from inferscale_kernels.resources import CASES, TABLE, TARGETS

COMMITTED = json.loads(TABLE.read_text())


@pytest.fixture(scope="module")
def compiled() -> dict[str, object]:
    """All cases on all targets, in a process where kernels are compiled, not interpreted."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "inferscale_kernels.resources"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_the_table_covers_every_case_and_target() -> None:
    assert len(COMMITTED["rows"]) == len(CASES) * len(TARGETS)


def test_nothing_spills(compiled: dict[str, list[dict[str, int]]]) -> None:
    for row in compiled["rows"]:
        assert row["spill_bytes"] == 0, row
        # At 4 warps a block, 64 registers keep 8 blocks, half of an SM's threads, in flight.
        assert row["registers"] <= 64, row
        assert row["shared_bytes"] <= 16384, row


def test_plain_models_are_stored_in_vectors_of_16_bytes(
    compiled: dict[str, list[dict[str, dict[str, int]]]],
) -> None:
    plain = [
        row
        for row in compiled["rows"]
        if row["model"] in ("smollm2-135m", "llama-3.1-8b", "gemma-3-270m")
        and row["cache"] == "bf16"
        and str(row["target"]).startswith("sm_")
    ]
    assert len(plain) == 21
    for row in plain:
        assert set(row["stores"]) == {"16"}, row
        # Each byte stored was loaded as 16-byte vectors too, or as half as many of int8.
        assert row["loads"]["16"] >= row["stores"]["16"] // 2, row


def test_resources_are_those_of_the_committed_table(compiled: dict[str, object]) -> None:
    if triton.__version__ != COMMITTED["triton"]:
        pytest.skip(f"the table is of Triton {COMMITTED['triton']}, here is {triton.__version__}")
    assert compiled == COMMITTED, (
        "the kernels changed: look at the difference, then "
        "`python -m inferscale_kernels.resources > kernels/inferscale_kernels/resources.json`"
    )


def test_the_documented_example_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    exec(compile(example, "docs/kernels.md", "exec"), {})


def test_the_documented_registers_are_the_tables() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()
    for row in COMMITTED["rows"]:
        label = f"| {row['op']}, {row['model']}"
        label += f", {row['items']} items" if row["items"] != "bf16" else ""
        label += f", {row['cache']} cache |" if row["cache"] != "bf16" else " |"
        line = next(line for line in text.splitlines() if line.startswith(label))
        column = 2 + list(TARGETS).index(row["target"])
        assert line.split("|")[column].strip() == str(row["registers"]), row
