"""One sidecar for all tests of this folder, two tenants of it, and clients for each."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator

import httpx
import pytest

from inferscale import Memory

from .facts import FACTS
from .process import Engine, SidecarProcess

Keys = dict[str, str]
_numbers = itertools.count()


@pytest.fixture(scope="session")
def keys() -> Keys:
    """API keys by tenant, filled by `sidecar`."""
    return {}


@pytest.fixture(scope="session")
def sidecar(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[SidecarProcess]:
    tools = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    process = SidecarProcess(tmp_path_factory.mktemp("sidecar"), engine_args=tools)
    process.cli("tenants", "create", "globex")
    keys |= {"acme": process.key(), "globex": process.key("globex")}
    with process:
        yield process


@pytest.fixture(scope="session")
def engine(sidecar: SidecarProcess) -> Iterator[Engine]:
    engine = Engine(sidecar)
    yield engine
    engine.http.close()


@pytest.fixture(scope="session")
def memory(sidecar: SidecarProcess, keys: Keys) -> Iterator[Memory]:
    """The SDK as the first tenant uses it."""
    with Memory(sidecar.url, api_key=keys["acme"]) as client:
        yield client


@pytest.fixture(scope="session")
def other(sidecar: SidecarProcess, keys: Keys) -> Iterator[Memory]:
    """The SDK as the second tenant uses it."""
    with Memory(sidecar.url, api_key=keys["globex"]) as client:
        yield client


@pytest.fixture(scope="session")
def http(sidecar: SidecarProcess, keys: Keys) -> Iterator[httpx.Client]:
    """Plain HTTP as the first tenant."""
    headers = {"authorization": f"Bearer {keys['acme']}"}
    with httpx.Client(base_url=sidecar.url, headers=headers, timeout=120) as client:
        yield client


@pytest.fixture
def user() -> str:
    """A user that nobody else has."""
    return f"user-{next(_numbers)}"


@pytest.fixture(scope="session")
def noor(memory: Memory) -> str:
    """A user of the first tenant whose forty memories have their KV."""
    for fact in FACTS:
        memory.add(fact, user_id="noor", infer=False)
    status = memory.wait_until_ready(120, builds=True)
    assert (status.failed, status.ready >= len(FACTS)) == (0, True)
    return "noor"


@pytest.fixture(scope="session")
def kv_keys(sidecar: SidecarProcess) -> Callable[[str], list[str]]:
    """The keys that the database has for a memory's KV."""

    def look(memory_id: str) -> list[str]:
        uri = f"file:{sidecar.home / 'inferscale.db'}?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            rows = connection.execute("SELECT key FROM kv_items WHERE memory_id = ?", (memory_id,))
            return [key for (key,) in rows]
        finally:
            connection.close()

    return look
