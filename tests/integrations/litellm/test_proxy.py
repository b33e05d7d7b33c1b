"""The real LiteLLM proxy with memory: users told apart by their keys, whatever requests say."""

import asyncio
import copy
import json
import time
from typing import Any

import pytest

pytest.importorskip("litellm", reason="LiteLLM is not installed: integrations/run_tests.sh")

import openai

from inferscale import Memory
from inferscale_litellm import InferScaleProxyPlugin

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
    pytest.mark.timeout(300),  # the proxy takes long to start
]

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"
OTHERS = "My sister Maya keeps cats in Rome"


@pytest.fixture
def ask(proxy: str) -> Any:
    """`ask(who, text, …)` asks the proxy with that user's key."""

    async def ask(
        who: str, text: str, *, stream: bool = False, model: str = "assistant", **more: Any
    ) -> str:
        messages: Any = [{"role": "user", "content": text}]
        async with openai.AsyncOpenAI(base_url=proxy, api_key=f"sk-{who}") as client:
            create: Any = client.chat.completions.create
            answer = await create(model=model, messages=messages, stream=stream, **more)
            if not stream:
                return str(answer.choices[0].message.content)
            parts = [c.choices[0].delta.content or "" async for c in answer if c.choices]
            return "".join(parts)

    return ask


def texts(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def remembered(memory: Memory, user: str, count: int) -> list[str]:
    """What is there once LiteLLM has called back, which it does after the answer."""
    until = time.monotonic() + 30
    while len(found := texts(memory, user)) < count and time.monotonic() < until:
        await asyncio.sleep(0.1)
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_the_second_conversation_knows_what_the_first_one_said(ask, memory, user, stream):
    assert FACT not in await ask(user, FACT, stream=stream)
    assert await remembered(memory, user, 1) == [FACT]
    assert FACT in await ask(user, QUESTION, stream=stream)


async def test_two_users_at_once_never_mix(ask, memory, user):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    asked = [ask(f"{user}-{n}", "which number is my sister") for n in range(4)]
    answers = await asyncio.gather(*asked)
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


FALLBACK = {"model": "assistant", "memory": {"user_id": "OTHER"}}
PRETENCES: dict[str, dict[str, Any]] = {
    "field": {"extra_body": {"memory": {"user_id": "OTHER"}}},
    "nested": {"extra_body": {"extra_body": {"memory": {"user_id": "OTHER"}}}},
    "user": {"user": "OTHER"},
    "header": {"extra_headers": {"X-InferScale-User-Id": "OTHER", "X-InferScale-Remember": "user"}},
    "metadata": {"extra_body": {"metadata": {"user_api_key_user_id": "OTHER"}}},
    "fallback": {
        "extra_body": {
            "mock_testing_fallbacks": True,  # LiteLLM's: the first deployment fails
            "fallbacks": [{**FALLBACK, "extra_body": {"memory": {"user_id": "OTHER"}}}],
        },
    },
}


@pytest.mark.parametrize("way", PRETENCES)
async def test_nobody_gets_anothers_memory_by_saying_so(ask, memory, user, way):
    other = f"{user}-other"
    memory.add(FACT, user_id=user)
    memory.add(OTHERS, user_id=other)
    pretence = json.loads(json.dumps(copy.deepcopy(PRETENCES[way])).replace("OTHER", other))
    for who in (user, "nobody"):
        answer = await ask(who, QUESTION, **pretence)
        assert OTHERS not in answer
        assert (FACT in answer) == (who == user and way != "fallback")
    assert texts(memory, other) == [OTHERS]


async def test_null_leaves_memory_out_and_other_fields_stay(ask, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    body = {"memory": None, "top_k": 5}
    assert FACT not in await ask(user, QUESTION, extra_body=body)
    (sent,) = sidecar.sent()
    assert sent["top_k"] == 5
    assert texts(memory, user) == [FACT]


async def test_a_key_of_nobody_has_no_memory(ask, memory, sidecar):
    await ask("nobody", FACT)
    assert [m["role"] for body in sidecar.sent() for m in body["messages"]] == ["user"]


async def test_other_deployments_are_left_alone(ask, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    assert FACT not in await ask(user, QUESTION, model="elsewhere")
    named = {"memory": {"user_id": f"{user}-other"}}
    await ask(user, QUESTION, model="elsewhere", extra_body=named)
    assert "Maya keeps bees" not in json.dumps(sidecar.sent())
    assert texts(memory, user) == [FACT]


async def test_cached_answers_never_cross_users(ask, memory, user):
    memory.add(FACT, user_id=user)
    assert FACT in await ask(user, QUESTION)
    for _ in range(2):
        assert FACT not in await ask(f"{user}-other", QUESTION)
        assert FACT not in await ask("nobody", QUESTION)


async def test_whose_memory_can_be_another_rule(sidecar, memory):
    plugin = InferScaleProxyPlugin(
        base_url=sidecar.url,
        client=memory,
        defaults={"k": 3},
        whose=lambda key, request: {"user_id": request["user"], "agent_id": key},
    )
    data = {"user": "alice", "messages": [{"role": "user", "content": QUESTION}]}
    found = await plugin.async_pre_call_hook("team", None, data, "acompletion")
    expected = {"user_id": "alice", "agent_id": "team", "k": 3, "query": QUESTION}
    assert found["extra_body"] == {"memory": expected}
    assert "extra_body" not in data
    sent = {**found, "api_base": f"{sidecar.url}/v1", "memory": {"user_id": "bob"}}
    kept = await plugin.async_pre_call_deployment_hook(copy.deepcopy(sent), "acompletion")
    assert kept["extra_body"]["memory"] == expected
    assert "memory" not in kept
    forged = json.loads(json.dumps(sent))
    kept = await plugin.async_pre_call_deployment_hook(forged, "acompletion")
    assert kept["extra_body"]["memory"] is None
