"""LiteLLM on a real vLLM: two turns of a conversation, by the library and through the proxy."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("litellm", reason="LiteLLM is not installed: integrations/run_tests.sh")

import httpx
import litellm
import openai

from inferscale import Memory
from inferscale_litellm import InferScaleCallback

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
]

TOLD, ASKED = "My cat is called Biscuit", "What is my cat called?"
SETTINGS: dict[str, Any] = {"temperature": 0, "max_tokens": 24}
Ask = Callable[[str, str], Awaitable[tuple[str, str]]]
"""(user, text) → (answer, the id of its report)."""


def said(text: str) -> Any:
    return [{"role": "user", "content": text}]


@pytest.fixture
def library(real: Any, real_memory: Memory) -> Iterator[dict[str, Any]]:
    """What calls of the library need, with a callback registered."""
    before = list(litellm.callbacks)
    litellm.callbacks.append(InferScaleCallback(base_url=real.url, client=real_memory))
    served = httpx.get(f"{real.url}/v1/models").json()["data"][0]["id"]
    target = {"api_base": f"{real.url}/v1", "api_key": "none"}
    yield {"model": f"hosted_vllm/{served}", **target, **SETTINGS}
    litellm.callbacks[:] = before
    litellm.logging_callback_manager._reset_all_callbacks()


def report_id(response: Any) -> str:
    """Of the sidecar's headers, LiteLLM keeps those of an answer under a name of its own."""
    headers = response._hidden_params["additional_headers"]
    return str(headers["llm_provider-x-inferscale-request-id"])


async def two_turns(ask: Ask, memory: Memory, facts: list[str], user: str) -> None:
    memory.add([{"role": "user", "content": fact} for fact in facts], user_id=user)
    await ask(user, TOLD)
    until = time.monotonic() + 60  # LiteLLM calls back after the answer
    while memory.get_all(user_id=user).total == len(facts) and time.monotonic() < until:
        await asyncio.sleep(0.2)
    memory.wait_until_ready(180, builds=True)
    stranger, _ = await ask(f"{user}-other", ASKED)
    answer, found = await ask(user, ASKED)
    assert "Biscuit" in answer
    assert "Biscuit" not in stranger
    report = memory.report(found)
    assert report.items == len(facts) + 1
    assert report.mode == "injected", report
    assert report.tokens is not None
    assert report.tokens.injected > report.tokens.prefilled


@pytest.mark.parametrize("mode", ["whole", "stream", "blocking"])
async def test_the_library(real_memory, library, facts, user, mode) -> None:
    async def ask(who: str, text: str) -> tuple[str, str]:
        call: dict[str, Any] = {"messages": said(text), **library}
        if mode == "blocking":
            body = {"memory": {"user_id": who}}
            response = await asyncio.to_thread(litellm.completion, extra_body=body, **call)
        elif mode == "whole":
            response = await litellm.acompletion(user=who, **call)
        else:
            response = await litellm.acompletion(user=who, stream=True, **call)
            words = [chunk.choices[0].delta.content or "" async for chunk in response]
            return "".join(words), report_id(response)
        return str(response.choices[0].message.content), report_id(response)

    await two_turns(ask, real_memory, facts, user)


@pytest.fixture(scope="module")
def real_proxy(real: Any, start_proxy: Any, tmp_path_factory: Any) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("proxy")
    served = httpx.get(f"{real.url}/v1/models").json()["data"][0]["id"]
    with start_proxy(folder, real.url, served) as url:
        yield url


@pytest.mark.parametrize("stream", [False, True])
async def test_the_proxy(real_memory, real_proxy, facts, user, stream) -> None:
    async def ask(who: str, text: str) -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=real_proxy, api_key=f"sk-{who}") as client:
            create: Any = client.chat.completions.with_raw_response.create
            raw = await create(model="assistant", messages=said(text), stream=stream, **SETTINGS)
            found = raw.headers["llm_provider-x-inferscale-request-id"]
            answer = raw.parse()
            if not stream:
                return str(answer.choices[0].message.content), found
            words = [c.choices[0].delta.content or "" async for c in answer if c.choices]
            return "".join(words), found

    await two_turns(ask, real_memory, facts, user)
