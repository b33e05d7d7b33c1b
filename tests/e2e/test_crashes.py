"""kill -9 for the engine, then for the sidecar, amid work. Nothing acknowledged is lost."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from inferscale import APIError, Memory, UnavailableError
from inferscale_sidecar.store import SqlStore
from inferscale_vllm.bank import Bank

from .process import Engine, SidecarProcess, wait_gone

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

LONG: dict[str, Any] = {"max_tokens": 4000, "ignore_eos": True, "temperature": 0}
SHORT: dict[str, Any] = {"max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """A sidecar that may be killed. It has no API keys: local callers need none."""
    with SidecarProcess(tmp_path_factory.mktemp("doomed")) as process:
        yield process


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def add_many(memory: Memory, user: str, count: int) -> None:
    facts = [f"Drawer {n} of {user} holds {n + 2} brass keys." for n in range(count)]
    memory.add([{"role": "user", "content": f} for f in facts], user_id=user, infer=False)


def is_injected(memory: Memory, user: str) -> bool:
    report = memory.chat("Which drawer?", user_id=user, k=20, **SHORT).memory
    assert report is not None
    return report.mode == "injected"


def fails_clearly(pending: Future[Any]) -> APIError:
    error = pending.exception(timeout=30)  # an answer, not a hang
    assert isinstance(error, APIError), error
    assert error.message and "Traceback" not in error.message
    return error


def test_killed_engine_comes_back_and_builds_resume(doomed: SidecarProcess) -> None:
    with Memory(doomed.url, max_retries=0, timeout_s=120) as memory, ThreadPoolExecutor() as pool:
        add_many(memory, "early", 40)
        memory.wait_until_ready(60, builds=True)
        stream = memory.chat("Tell a long story.", user_id="early", stream=True, **LONG)
        chunks = iter(stream)
        next(chunks)
        plain = pool.submit(memory.chat, "Tell another.", user_id="early", **LONG)
        add_many(memory, "late", 240)
        wait_for(lambda: memory.builds().building > 0, "no build began")
        victims = doomed.engines()
        doomed.kill_engine()
        wait_gone(victims)

        fails_clearly(plain)
        fails_clearly(pool.submit(list, chunks))
        wait_for(lambda: not is_ready(doomed), "the engine's death went unnoticed", 10)
        with pytest.raises(UnavailableError) as caught:
            memory.chat("Anybody there?", **SHORT)
        assert caught.value.retry_after_s
        kept = memory.add("Written while the engine was away.", user_id="late", infer=False)
        assert memory.get(kept.results[0].id) is not None
        assert memory.search("engine away", user_id="late").results[0].id == kept.results[0].id

        memory.wait_until_ready(120)
        status = memory.wait_until_ready(120, builds=True)
        assert (status.ready, status.failed) == (281, 0)
        assert is_injected(memory, "early") and is_injected(memory, "late")


def is_ready(sidecar: SidecarProcess) -> bool:
    return httpx.get(f"{sidecar.url}/ready").status_code == 200


def test_killed_sidecar_loses_nothing_it_acknowledged(doomed: SidecarProcess) -> None:
    writer = Writer(doomed.url)
    writer.start()
    wait_for(lambda: len(writer.acknowledged) > 60, "no writes")
    with Memory(doomed.url) as memory:
        wait_for(lambda: memory.builds().building > 0, "no build began")
    engines = doomed.engines()
    assert engines
    doomed.kill()
    writer.join(30)
    assert not writer.is_alive()
    wait_gone(engines)  # nobody is left to stop them: they must notice by themselves

    doomed.start()
    with Memory(doomed.url) as memory:
        found = {m.id: m.memory for m in memory.get_all(user_id="writer").results}
        assert set(writer.acknowledged.items()) <= set(found.items())
        # The write that was cut off may be there or not, but never half.
        assert len(found) - len(writer.acknowledged) in (0, 1)
        status = memory.wait_until_ready(120, builds=True)
        assert status.failed == 0 and status.ready >= len(found)
        assert is_injected(memory, "writer")
        engine = Engine(doomed)
        assert engine.status()["bank"]["items"] >= len(found)
        engine.http.close()

    engines, started = doomed.engines(), time.monotonic()
    assert doomed.stop() == 0
    assert time.monotonic() - started < 15
    wait_gone(engines, 1)
    assert_intact(doomed)


class Writer(threading.Thread):
    """Adds one memory after the other until the sidecar is gone; remembers what it was told."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.acknowledged: dict[str, str] = {}
        self._url = url

    def run(self) -> None:
        with Memory(self._url, max_retries=0) as memory:
            for n in range(100_000):
                text = f"Note {n} of the writer is about {n % 13} herons."
                try:
                    added = memory.add(text, user_id="writer", infer=False)
                except APIError:
                    return
                self.acknowledged[added.results[0].id] = text


def assert_intact(sidecar: SidecarProcess) -> None:
    """No invariant of the database or of the bank is broken."""

    async def check_store() -> list[str]:
        store = SqlStore(f"sqlite+aiosqlite:///{sidecar.home / 'inferscale.db'}")
        try:
            await store.start()
            return await store.check_integrity()
        finally:
            await store.close()

    assert asyncio.run(check_store()) == []
    files = list((sidecar.home / "bank").rglob("rank*/data.mdb"))
    assert files
    for file in files:
        bank = Bank(file.parent, limit_bytes=2**33)
        assert bank.check_integrity() == []
        bank.close()
