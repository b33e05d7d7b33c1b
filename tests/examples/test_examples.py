"""The examples as a user runs them: with a scripted engine always, with a real vLLM when asked."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SAID = ("My cat is called Biscuit.", "What is my cat called?")
CHAT = ("openai_chat.py", *(word for line in SAID for word in ("--say", line)))


def run(*command: str, timeout: float = 100, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A sidecar whose engine repeats the system message that it was sent."""
    served = ROOT / "tests" / "integrations" / "served.py"
    argv = [sys.executable, str(served), str(tmp_path_factory.mktemp("sidecar"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


class TestScripted:
    """What reaches the model is right; what a model makes of it is not its concern."""

    def test_openai_chat(self, scripted: str) -> None:
        name, *words = CHAT
        output = run(str(EXAMPLES / name), *words, INFERSCALE_BASE_URL=scripted)
        first, second = output.split("you:   ")[1:]
        assert "Biscuit" not in first.partition("model:")[2]
        assert "- My cat is called Biscuit." in second
        assert "1 memories" in second

    def test_two_agents(self, scripted: str) -> None:
        output = run(str(EXAMPLES / "two_agents.py"), INFERSCALE_BASE_URL=scripted)
        for prompt in ("You are a cook", "You arrange journeys"):
            assert prompt in output
        assert output.count("- My brother lives in Porto.") == 2
        assert output.count("8 memories") == 2

    def test_from_mem0(self, scripted: str) -> None:
        output = run(str(EXAMPLES / "from_mem0.py"), INFERSCALE_BASE_URL=scripted)
        before, after = output.split("after:")
        assert "What you know about the user:" in before
        assert "- My dog is called Loki." in before
        assert "- My dog is called Loki." in after
        assert "6 memories" in after


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_with_a_real_engine(tmp_path: Path) -> None:
    """All in one start: what they print is injected, and right."""
    scripts = [CHAT, ("two_agents.py",), ("from_mem0.py",)]
    code = "import subprocess, sys\n" + "\n".join(
        f"subprocess.run([sys.executable, {str(EXAMPLES / name)!r}, *{words!r}], check=True)"
        for name, *words in scripts
    )
    sets = ("--set", f"engine.bank_dir={tmp_path}/bank", "--set", "server.log_level=warning")
    sidecar = ("-m", "inferscale_sidecar.cli", "run", "--model", "demo", *sets)
    command = (*sidecar, "--", sys.executable, "-c", code)
    output = run(*command, timeout=580, INFERSCALE_HOME=str(tmp_path / "home"), HF_HUB_OFFLINE="1")
    assert re.search(r"What is my cat called\?\nmodel: .*Biscuit", output), output
    # What a model of 135M makes of two agents' questions is not for a test to say.
    assert len(re.findall(r"8 memories, injected", output)) == 2, output
    assert re.search(r"after: .*Loki.*\n.*6 memories, injected", output), output
