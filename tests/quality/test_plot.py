"""Plots show what the rows say."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.quality.plot import curves

ROOT = Path(__file__).parents[2]


def row(policy: str, k: int, r: float, kl: float, ttft_ms: float | None) -> dict[str, object]:
    return {"policy": policy, "k": k, "r": r, "kl": kl, "ttft_ms": ttft_ms, "questions": 3}


FOUND = {
    "rows": [
        row("recent(8)", 20, 5, 0.03, 60.0),
        row("recent(8)", 20, 0, 0.05, 40.0),
        row("default", 20, 3.9, 0.04, 55.0),
        row("text", 20, 20, 0.0004, 200.0),
        row("recent(8)", 50, 0, 0.05, None),
    ]
}


def test_curves_run_from_fast_to_slow_and_leave_out_what_was_not_timed() -> None:
    assert [r["r"] for r in curves(FOUND, 20)["recent(8)"]] == [0, 5]
    assert set(curves(FOUND, 20)) == {"recent(8)", "default", "text"}
    assert curves(FOUND, 50) == {}


def test_the_command_writes_one_figure_per_k_with_every_policy_in_it(tmp_path: Path) -> None:
    result = tmp_path / "quality.json"
    result.write_text("a log line\n" + json.dumps(FOUND))
    argv = [sys.executable, "-m", "benchmarks.quality.plot", str(result), str(tmp_path)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=120)
    names = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert names == ["quality-k20.svg", "quality-k50.svg"]
    text = (tmp_path / "quality-k20.svg").read_text()
    assert text.count("r=") >= 4 or text.count("<!-- r=") >= 4
    for policy in ("recent(8)", "default", "text"):
        assert f"<!-- {policy} -->" in text
