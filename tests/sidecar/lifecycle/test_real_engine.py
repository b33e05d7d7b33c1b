"""Crashes with a real vLLM: its core killed, then the sidecar; memory and KV survive both."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inferscale import Memory

from .real import RealSidecar

FACTS = [f"The user's locker number {n} holds the {n * 7} blue marbles." for n in range(12)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not engines_of(tmp_path), "vLLM processes were left behind"


def engines_of(home: Path) -> list[psutil.Process]:
    """Processes of a vLLM whose bank lies in `home`, its core among them."""
    servers = [
        process
        for process in psutil.process_iter()
        if any(str(home) in word for word in _command_line(process))
        and "vllm.entrypoints.openai.api_server" in _command_line(process)
    ]
    return [*servers, *(child for server in servers for child in server.children(recursive=True))]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def injected_tokens(memory: Memory) -> int:
    answer = memory.chat("What is in the lockers?", user_id="ada", k=12, max_tokens=4)
    assert answer.memory is not None
    assert answer.memory.tokens is not None, answer.memory.reason
    return answer.memory.tokens.injected


def wait_gone(home: Path) -> None:
    deadline = time.monotonic() + 40
    while engines_of(home):
        assert time.monotonic() < deadline, "vLLM outlived its sidecar"
        time.sleep(0.2)


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_memory_and_kv_survive_crashes_of_engine_and_sidecar(home: Path) -> None:
    with RealSidecar(home) as sidecar, Memory(sidecar.url) as memory:
        for fact in FACTS:
            memory.add(fact, user_id="ada", infer=False)
        assert memory.wait_until_ready(120, builds=True).ready == len(FACTS)
        before = injected_tokens(memory)
        assert before > 0

        for process in engines_of(home):
            if process.name().startswith("VLLM::EngineCor"):
                process.kill()
        sidecar.wait_for_restart()
        memory.wait_until_ready(300, builds=True)
        assert injected_tokens(memory) == before

        os.kill(sidecar.pid, signal.SIGKILL)
        wait_gone(home)

    with RealSidecar(home) as sidecar, Memory(sidecar.url) as memory:
        assert {found.memory for found in memory.get_all(user_id="ada").results} == set(FACTS)
        assert injected_tokens(memory) == before
        assert memory.builds().ready == len(FACTS)
