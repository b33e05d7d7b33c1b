"""A handle that is used again becomes exact: a second sidecar, at the same vLLM."""

from collections.abc import Iterator
from typing import Any

import pytest

from inferscale import Memory, MemoryHandle

from .facts import FACTS
from .process import Engine, SidecarProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

QUESTION = "What is the name of Noor's cat?"
K = 20
CALLS = 10


@pytest.fixture(scope="module")
def lazy(sidecar: SidecarProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A client of it, with the forty memories of `noor`."""
    flags = ("--engine-url", sidecar.engine_url, "--set", "inject.lazy_exactness=on")
    process = SidecarProcess(tmp_path_factory.mktemp("lazy"), flags=flags)
    key = process.key()
    with process, Memory(process.url, api_key=key) as memory:
        for fact in FACTS:
            memory.add(fact, user_id="noor", infer=False)
        assert memory.wait_until_ready(120, builds=True).ready >= len(FACTS)
        yield memory


def ask(memory: Memory, handle: MemoryHandle, **field: Any) -> Any:
    return memory.chat(
        QUESTION,
        memory={**handle.as_field(), **field},
        temperature=0,
        max_tokens=12,
        logprobs=True,
        top_logprobs=5,
    )


def bits(answer: Any) -> Any:
    """All that must be equal when two answers are said to be bit-equal."""
    return answer.choices[0].logprobs


def test_a_later_call_of_a_handle_is_exact(lazy: Memory, engine: Engine) -> None:
    handle = lazy.recall(QUESTION, user_id="noor", k=K)
    first = ask(lazy, handle)
    assert (first.memory.mode, first.memory.reason) == ("injected", None)
    for _ in range(CALLS):
        engine.wait_idle(60)
        later = ask(lazy, handle)
        if later.memory.reason == "native_hit":
            break
    assert (later.memory.mode, later.memory.reason) == ("injected", "native_hit")
    assert later.memory.tokens.injected == 0 < later.memory.tokens.native
    exact = ask(lazy, handle, fidelity="exact")
    assert exact.memory.mode == "text"
    assert exact.memory.tokens == later.memory.tokens
    assert bits(later) == bits(exact)
    assert bits(first) != bits(exact), "the first call was not exact, or this proves nothing"
