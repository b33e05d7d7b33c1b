"""`examples/langchain_agent.py` as a user runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="LangChain is not installed: integrations/run_tests.sh")

EXAMPLE = Path(__file__).parents[3] / "examples" / "langchain_agent.py"


def run(url: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *words],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "INFERSCALE_BASE_URL": url},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("tools", [(), ("--tools",)])
def test_the_second_conversation_knows_the_first(sidecar: Any, tools: tuple[str, ...]) -> None:
    output = run(sidecar.url, *tools)
    second = output.partition("Second conversation")[2]
    assert "- My bicycle is a green Peugeot from 1978." in second
    assert "You help customers of a bicycle shop" in second
    sent = sidecar.sent()
    names = [tool["function"]["name"] for tool in sent[-1].get("tools", ())]
    assert names == (["free_times", "search_memories"] if tools else [])


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_with_a_real_engine(real: Any) -> None:
    output = run(real.url)
    second = output.partition("Second conversation")[2]
    assert "green" in second.partition("agent:")[2]
    assert re.search(r"5 memories|6 memories", second), output
    assert "injected" in second
