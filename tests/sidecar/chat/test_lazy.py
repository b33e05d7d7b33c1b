"""A handle that is used again gets its exact KV, once, in the background, and never at a price."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.sidecar.chat.stage import HELLO, Stage
from tests.sidecar.engine.demo import demo_lists, demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.build.exact import MAX_WAITING, LazyExactness, Rendering
from inferscale_sidecar.build.send import BUILD_PRIORITY

FACTS = tuple(f"Fact number {n} about the town." for n in range(10))
CHAT = "/v1/chat/completions"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        stage = Stage(engine, client, lazy=LazyExactness(client, after_uses=2))
        await stage.remember(*FACTS)
        yield stage
        await stage.warmer.stop()


async def ask(stage: Stage, http: httpx.AsyncClient, **memory: object) -> None:
    field = {"handle": "mh_acme", **memory}
    answer = await http.post(CHAT, json={"model": "demo", "messages": HELLO, "memory": field})
    assert answer.status_code == 200
    assert stage.lazy is not None
    await stage.lazy.wait_idle()


def prefills(stage: Stage) -> list[dict[str, object]]:
    return [
        body
        for body in stage.engine.bodies
        if body.get("priority") == BUILD_PRIORITY
        and body["kv_transfer_params"].get("inferscale", {"op": "show"})["op"] == "show"
    ]


async def test_the_second_use_is_followed_by_one_exact_prefill(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    await ask(stage, http)
    assert not prefills(stage)
    await ask(stage, http)
    (sent,) = prefills(stage)
    await ask(stage, http)
    await ask(stage, http)
    assert len(prefills(stage)) == 1
    chat = next(b for b in reversed(stage.engine.bodies) if "messages" in b)
    tokenizer, block = demo_tokenizer(), demo_lists().frame.render(FACTS)
    text = tokenizer.render(chat["messages"])
    shared = list(tokenizer.encode(text[: text.index(block) + len(block)]).ids)
    assert sent["prompt"][: len(shared)] == shared, "else vLLM would not find its blocks"
    assert sent["cache_salt"] == chat["cache_salt"]
    assert sent["max_tokens"] == 1


async def test_requests_with_a_handle_ask_to_stay_exact(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    await ask(stage, http)
    await ask(stage, http, handle=None, user_id="alice")
    asked = [b["kv_transfer_params"]["inferscale"] for b in stage.engine.bodies if "messages" in b]
    assert [body.get("stays_exact", False) for body in asked] == [True, False]


async def test_text_and_requests_without_a_handle_do_not_count(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    for _ in range(4):
        await ask(stage, http, inject=False)
        await ask(stage, http, handle=None, user_id="alice")
    assert not prefills(stage)


async def test_an_engine_that_refuses_costs_the_client_nothing(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    stage.engine.refuse = lambda body: body.get("priority") == BUILD_PRIORITY
    for _ in range(3):
        await ask(stage, http)
    assert len(prefills(stage)) == 1


async def test_what_does_not_fit_the_queue_is_dropped() -> None:
    engine = FakeEngine()
    engine.gate = asyncio.Event()
    async with engine.client() as client:
        await client.status()
        lazy = LazyExactness(client, after_uses=1)
        for n in range(3 * MAX_WAITING):
            lazy.used(Rendering(f"mh_{n}", {"prompt": f"text {n}"}, "salt", {}))
        engine.gate.set()
        await lazy.wait_idle()
        assert len(engine.bodies) == MAX_WAITING


async def test_stopping_aborts_the_prefill() -> None:
    engine = FakeEngine()
    engine.gate = asyncio.Event()
    async with engine.client() as client:
        await client.status()
        lazy = LazyExactness(client, after_uses=1)
        lazy.used(Rendering("mh_1", {"prompt": "text"}, "salt", {}))
        while not engine.bodies:
            await asyncio.sleep(0.01)
        await lazy.stop()
        await asyncio.wait_for(engine.aborted.wait(), 5)
