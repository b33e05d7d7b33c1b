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


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each example prints beside a real vLLM with the demo model; one start for all."""
    folder = tmp_path_factory.mktemp("real")
    scripts = [("quickstart.py", "--repeats", "3"), CHAT, ("two_agents.py",), ("from_mem0.py",)]
    code = "import subprocess, sys\n" + "\n".join(
        f"print('=====', {name!r}, flush=True)\n"
        f"subprocess.run([sys.executable, {str(EXAMPLES / name)!r}, *{words!r}], check=True)"
        for name, *words in scripts
    )
    store = f"store.url=sqlite+aiosqlite:///{folder}/memory.db"
    sets = ("--set", store, "--set", f"engine.bank_dir={folder}/bank")
    sidecar = ("-m", "inferscale_sidecar.cli", "run", "--model", "demo", *sets)
    quiet = ("--set", "server.log_level=warning")
    command = (*sidecar, *quiet, "--", sys.executable, "-c", code)
    output = run(*command, timeout=580, HF_HUB_OFFLINE="1")
    parts = (part.partition("\n") for part in output.split("===== ")[1:])
    return {name: text for name, _, text in parts}


@pytest.mark.engine
@pytest.mark.timeout(600)
class TestWithARealEngine:
    """What they print is injected, and right."""

    def test_quickstart_answers_from_memory_and_injection_is_faster(
        self, real: dict[str, str]
    ) -> None:
        output = real["quickstart.py"]
        assert "Pixel" in output
        assert "Lisbon" in output
        assert re.search(r"injected: \d{2,} tokens injected", output)
        ratios = [float(found) for found in re.findall(r"([0-9.]+)×", output)]
        assert len(ratios) == 3
        assert ratios[-1] > 1.2, output

    def test_openai_chat(self, real: dict[str, str]) -> None:
        output = real["openai_chat.py"]
        assert re.search(r"What is my cat called\?\nmodel: .*Biscuit", output), output

    def test_two_agents(self, real: dict[str, str]) -> None:
        # What a model of 135M makes of two agents' questions is not for a test to say.
        output = real["two_agents.py"]
        assert len(re.findall(r"8 memories, injected", output)) == 2, output

    def test_from_mem0(self, real: dict[str, str]) -> None:
        output = real["from_mem0.py"]
        assert re.search(r"after: .*Loki.*\n.*6 memories, injected", output), output
