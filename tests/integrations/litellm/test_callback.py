"""LiteLLM's library with memory, against the real application."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("litellm", reason="LiteLLM is not installed: integrations/run_tests.sh")

import litellm
from litellm.caching import Cache

from inferscale import AsyncMemory, InvalidArgumentError, Memory
from inferscale_litellm import InferScaleCallback

# LiteLLM imports itself piece by piece, when a call comes, and Pydantic has something to say to it.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydantic")

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


@pytest.fixture
def callbacks() -> Iterator[list[Any]]:
    """LiteLLM keeps them in a list of its own, for the process."""
    before = list(litellm.callbacks)
    yield litellm.callbacks
    litellm.callbacks[:] = before
    litellm.logging_callback_manager._reset_all_callbacks()


@pytest.fixture
def use(callbacks: list[Any], sidecar: Any, memory: Memory) -> Any:
    """`use(…)` registers a callback."""

    def register(**options: Any) -> InferScaleCallback:
        made = InferScaleCallback(**{"base_url": sidecar.url, "client": memory, **options})
        callbacks.append(made)
        return made

    return register


@pytest.fixture
def options(sidecar: Any) -> dict[str, Any]:
    return {
        "model": "hosted_vllm/scripted",
        "api_base": f"{sidecar.url}/v1",
        "api_key": "none",
    }


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def answer(mode: str, text: str, **options: Any) -> str:
    """The answer to a message, awaiting, in one of two modes."""
    if mode == "whole":
        response = await litellm.acompletion(messages=said(text), **options)
        return str(response.choices[0].message.content)
    stream = await litellm.acompletion(messages=said(text), stream=True, **options)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def texts(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def remembered(memory: Memory, user: str, count: int) -> list[str]:
    """What is there once LiteLLM has called back, which it does after the answer."""
    until = time.monotonic() + 20
    while len(found := texts(memory, user)) < count and time.monotonic() < until:
        await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize("mode", ["whole", "stream"])
async def test_the_second_call_knows_what_the_first_one_said(use, options, memory, user, mode):
    use()
    assert FACT not in await answer(mode, FACT, user=user, **options)
    assert await remembered(memory, user, 1) == [FACT]
    assert FACT in await answer(mode, QUESTION, user=user, **options)


@pytest.mark.parametrize("mode", ["whole", "stream"])
async def test_two_users_at_once_never_mix(use, options, memory, user, mode):
    use(remember="nothing")
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    asked = [
        answer(mode, "which number is my sister", user=f"{user}-{n}", **options) for n in range(4)
    ]
    answers = await asyncio.gather(*asked)
    assert [one.count("number") for one in answers] == [1] * 4
    assert all(f"number {n}" in one for n, one in enumerate(answers))


async def test_with_the_answer_if_asked_to_and_not_what_tools_said(use, options, memory, user):
    use(remember="turn", metadata={"from": "chat"})
    told = await answer("whole", "hello", user=user, **options)
    assert await remembered(memory, user, 2) == sorted(["hello", told])
    assert memory.get_all(user_id=user).results[0].metadata == {"from": "chat"}
    call = {"id": "c1", "type": "function", "function": {"name": "bees", "arguments": "{}"}}
    messages = [
        *said("how many bees"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 bees"},
    ]
    await litellm.acompletion(messages=messages, user=user, **options)
    await answer("whole", "last", user=user, **options)
    assert "how many bees" not in await remembered(memory, user, 4)


def test_a_blocking_call_names_memory_itself_and_is_remembered(use, options, memory, user):
    use()
    body = {"memory": {"user_id": user}}
    for text, is_known in ((FACT, False), (QUESTION, True)):
        response = litellm.completion(messages=said(text), extra_body=body, **options)
        assert (FACT in str(response.choices[0].message.content)) == is_known
        assert asyncio.run(remembered(memory, user, 1 + is_known))
    assert texts(memory, user) == sorted([FACT, QUESTION])


async def test_what_a_call_names_itself_wins(use, options, memory, sidecar, user):
    use(remember="nothing", defaults={"k": 1})
    memory.add(FACT, user_id=user)
    memory.add("My sister Maya keeps cats", user_id=f"{user}-other")
    handle = memory.recall(QUESTION, user_id=user).id
    named = {"extra_body": {"memory": {"handle": handle}, "top_k": 5}}
    assert FACT in await answer("whole", "hello", user=f"{user}-other", **named, **options)
    assert sidecar.sent()[0]["top_k"] == 5
    off = {"extra_body": {"memory": None}}
    assert FACT not in await answer("whole", QUESTION, user=user, **off, **options)
    assert FACT not in await answer("whole", QUESTION, **options)


async def test_defaults_go_with_every_user(use, options, memory, user):
    use(remember="nothing", defaults={"k": 1})
    memory.add(FACT, user_id=user)
    memory.add("It rains", user_id=user)
    told = await answer("whole", QUESTION, user=user, **options)
    assert FACT in told
    assert "It rains" not in told


async def test_requests_to_others_are_left_alone(callbacks, options, sidecar, memory, user):
    callbacks.append(InferScaleCallback(base_url="http://elsewhere:8420", client=memory))
    memory.add(FACT, user_id=user)
    assert FACT not in await answer("whole", QUESTION, user=user, **options)
    assert "memory" not in json.dumps(sidecar.sent())


async def test_an_answer_with_memory_is_not_cached(use, options, memory, user):
    use(remember="nothing")
    memory.add(FACT, user_id=user)
    litellm.cache = Cache(type="local")
    try:
        assert FACT in await answer("whole", QUESTION, user=user, **options)
        for _ in range(2):
            assert FACT not in await answer("whole", QUESTION, user=f"{user}-other", **options)
            assert FACT not in await answer("whole", QUESTION, **options)
        memory.delete_all(user_id=user)
        assert FACT not in await answer("whole", QUESTION, user=user, **options)
    finally:
        litellm.cache = None


def test_the_last_turn_of_a_script_is_remembered(sidecar, memory, user):
    code = f"""
import asyncio, litellm
from inferscale_litellm import InferScaleCallback
litellm.callbacks = [InferScaleCallback()]
asyncio.run(litellm.acompletion(
    model="hosted_vllm/scripted", api_base={sidecar.url + "/v1"!r}, api_key="none",
    messages=[{{"role": "user", "content": {FACT!r}}}], user={user!r},
))
"""
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "INFERSCALE_BASE_URL": sidecar.url}
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **path})
    assert texts(memory, user) == [FACT]


async def test_a_text_completion(use, callbacks):
    """Prompts are searched with, as messages are."""
    callback = use(defaults={"k": 3})
    kwargs = {"api_base": callback._root, "user": "alice", "prompt": QUESTION}
    found = await callback.async_pre_call_deployment_hook(kwargs, "atext_completion")
    assert found["extra_body"]["memory"] == {"user_id": "alice", "k": 3, "query": QUESTION}
    assert await callback.async_pre_call_deployment_hook(kwargs, "aembedding") is kwargs


async def test_a_client_that_awaits(use, options, sidecar, memory, user):
    async with AsyncMemory(sidecar.url) as client:
        use(client=client)
        await answer("whole", FACT, user=user, **options)
        assert await remembered(memory, user, 1) == [FACT]


@pytest.mark.parametrize(
    "arguments", [{"remember": "all"}, {"defaults": {"K": 3}}, {"client": 3}, {"base_url": "x"}]
)
def test_arguments_are_checked_at_once(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleCallback(**arguments)
