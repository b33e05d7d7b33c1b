"""A sidecar to talk to, served by the project's own interpreter, and a user nobody else has."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferscale import Memory

ROOT = Path(__file__).parents[2]
PYTHON_ENV = "INFERSCALE_SIDECAR_PYTHON"
"""The interpreter that has the sidecar installed; default: the project's .venv."""
REAL_ENV = "INFERSCALE_REAL_SIDECAR"
"""Address of a sidecar whose vLLM is real; `make test-integrations` starts one."""


@dataclass(frozen=True)
class Sidecar:
    url: str

    def sent(self) -> list[dict[str, Any]]:
        """What the engine was sent since the last look."""
        bodies: list[dict[str, Any]] = httpx.get(f"{self.url}/test/bodies").json()
        return bodies

    def advance(self, *, days: float) -> None:
        """Moves the sidecar's clock, which lets handles expire."""
        httpx.post(f"{self.url}/test/advance/{days}").raise_for_status()


@pytest.fixture(scope="session")
def sidecar_python() -> Path:
    python = Path(os.environ.get(PYTHON_ENV) or ROOT / ".venv" / "bin" / "python")
    if not python.exists():
        pytest.skip(f"no interpreter with the sidecar at {python}; set {PYTHON_ENV}")
    return python


@contextmanager
def served(python: Path, folder: Path, **env: str) -> Iterator[Sidecar]:
    """A sidecar with a scripted engine, whose database lies in `folder`."""
    argv = [str(python), str(Path(__file__).with_name("served.py")), str(folder)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "the sidecar did not start; its errors are above"
        yield Sidecar(url)
        process.terminate()


@pytest.fixture(scope="session")
def running(sidecar_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    with served(sidecar_python, tmp_path_factory.mktemp("sidecar")) as sidecar:
        yield sidecar


@dataclass(frozen=True)
class Keyed(Sidecar):
    """A sidecar that asks for keys: `mine` and `reader` of one tenant, `other` of another one."""

    mine: str
    reader: str
    other: str


@pytest.fixture(scope="session")
def keyed(sidecar_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("keyed")
    store = ("--set", f"store.url=sqlite+aiosqlite:///{folder / 'memory.db'}", "--json")

    def cli(*words: str) -> Any:
        argv = [str(sidecar_python), "-m", "inferscale_sidecar.cli", *words, *store]
        return json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)

    cli("tenants", "create", "acme")
    secrets = {
        "mine": cli("keys", "create", "mine")["secret"],
        "reader": cli("keys", "create", "reader", "--scope", "read")["secret"],
        "other": cli("keys", "create", "other", "--tenant", "acme")["secret"],
    }
    # Its own environment names the mightier key: nobody must act with that one.
    with served(sidecar_python, folder, INFERSCALE_API_KEY=secrets["mine"]) as sidecar:
        yield Keyed(sidecar.url, **secrets)


@pytest.fixture(scope="session")
def real() -> Sidecar:
    """A sidecar with a real vLLM and the demo model, one for all frameworks."""
    url = os.environ.get(REAL_ENV)
    if not url:
        pytest.skip(
            f"no sidecar with a real engine ({REAL_ENV} is not set): make test-integrations"
        )
    return Sidecar(url)


@pytest.fixture
def real_memory(real: Sidecar) -> Iterator[Memory]:
    with Memory(real.url) as memory:
        yield memory


@pytest.fixture
def facts() -> list[str]:
    """What a user has told before, beside what a test is about."""
    return [
        "I work as a nurse in the night shift",
        "I take the tram to the hospital",
        "My brother lives in Lisbon",
        "I am learning the cello",
        "I do not eat mushrooms",
        "My flat is on the third floor",
    ]


Answer = Callable[[Memory, str, str], Awaitable[tuple[str, str]]]
"""(memory, what a user says, the user) → what a new thread answers, and its report's id."""


@pytest.fixture
def two_turns(
    real_memory: Memory, facts: list[str], user: str
) -> Callable[[Answer], Awaitable[None]]:
    """Checks, on the real engine, that a second thread is answered from what the first was told."""

    async def check(answer: Answer) -> None:
        asked = "What is my cat called?"
        real_memory.add([{"role": "user", "content": fact} for fact in facts], user_id=user)
        await answer(real_memory, "My cat is called Biscuit", user)
        real_memory.wait_until_ready(180, builds=True)
        stranger, _ = await answer(real_memory, asked, f"{user}-other")
        said, report_id = await answer(real_memory, asked, user)
        report = real_memory.report(report_id)
        assert "Biscuit" in said
        assert "Biscuit" not in stranger
        assert report.items == len(facts) + 1
        assert report.mode == "injected", report
        assert report.tokens is not None
        assert report.tokens.injected > report.tokens.prefilled

    return check


@pytest.fixture
def run_example() -> Callable[..., str]:
    """`run_example(name, *words, url=…)` runs a file of `examples/`: what it printed."""

    def run(name: str, *words: str, url: str) -> str:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / name), *words],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "INFERSCALE_BASE_URL": url},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def sidecar(running: Sidecar) -> Sidecar:
    running.sent()
    return running


@pytest.fixture
def memory(sidecar: Sidecar) -> Iterator[Memory]:
    with Memory(sidecar.url) as memory:
        yield memory


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex}"
