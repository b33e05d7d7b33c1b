"""The quickstart as a user runs it: with a real vLLM and the demo model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_it_answers_from_memory_and_injection_is_faster(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "quickstart.py"), "--repeats", "3"]
    store = f"store.url=sqlite+aiosqlite:///{tmp_path}/demo.db"
    sidecar = [sys.executable, "-m", "inferscale_sidecar.cli", "run", "--model", "demo"]
    sets = ["--set", store, "--set", f"engine.bank_dir={tmp_path}/bank"]
    done = subprocess.run(
        [*sidecar, *sets, "--", *command],
        capture_output=True,
        text=True,
        timeout=580,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Pixel" in done.stdout
    assert "Lisbon" in done.stdout
    assert re.search(r"injected: \d{2,} tokens injected", done.stdout)
    ratios = [float(found) for found in re.findall(r"([0-9.]+)×", done.stdout)]
    assert len(ratios) == 3
    assert ratios[-1] > 1.2, done.stdout
