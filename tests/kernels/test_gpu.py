"""On a GPU only: the fused kernels reach a fair share of a copy's speed.

Their results there are checked by test_triton.py, which runs on the GPU when there is one.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_inject_and_extract_run_at_the_speed_of_a_copy() -> None:
    command = [sys.executable, "-m", "benchmarks.kernels", "--json", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    large = [row for row in rows if row["tokens"] >= 16000 and "," not in row["op"]]
    assert {row["op"] for row in large} == {"inject", "extract"}
    for row in large:
        assert row["achieved"] >= 0.6, row
