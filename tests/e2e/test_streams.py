"""Clients that leave: vLLM must not go on working for nobody."""

import time
from typing import Any

import httpx
import pytest

from inferscale import Memory

from .process import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]

LONG: dict[str, Any] = {"max_tokens": 4000, "ignore_eos": True, "model": "smollm2-135m-instruct"}
FREED_WITHIN_S = 5.0


@pytest.fixture(autouse=True)
def quiet(memory: Memory, engine: Engine) -> None:
    memory.wait_until_ready(60, builds=True)
    engine.wait_idle(10)


def wait_running(engine: Engine) -> None:
    deadline = time.monotonic() + 10
    while not engine.running():
        assert time.monotonic() < deadline, "the request never reached vLLM"
        time.sleep(0.02)


def test_closing_a_stream_cancels_the_request(memory: Memory, engine: Engine, noor: str) -> None:
    with memory.chat("Tell a long story.", user_id=noor, stream=True, **LONG) as stream:
        chunks = iter(stream)
        for _ in range(3):
            next(chunks)
        assert engine.running() == 1
    engine.wait_idle(FREED_WITHIN_S)


def test_hanging_up_on_a_plain_request_cancels_it(
    http: httpx.Client, memory: Memory, engine: Engine, noor: str
) -> None:
    messages = [{"role": "user", "content": "Tell a long story."}]
    for extra in ({}, {"memory": {"user_id": noor}}):
        with pytest.raises(httpx.ReadTimeout):
            body = {"messages": messages, **LONG, **extra}
            http.post("/v1/chat/completions", json=body, timeout=1.5)
        engine.wait_idle(FREED_WITHIN_S)


def test_many_who_leave_at_once(memory: Memory, engine: Engine, noor: str) -> None:
    streams = [memory.chat(f"Story {n}.", user_id=noor, stream=True, **LONG) for n in range(8)]
    wait_running(engine)
    for stream in streams:
        stream.close()
    engine.wait_idle(FREED_WITHIN_S)
    answer = memory.chat("Hello.", user_id=noor, max_tokens=2)
    assert answer.usage is not None and answer.usage.completion_tokens == 2
