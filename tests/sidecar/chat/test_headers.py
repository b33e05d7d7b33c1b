"""Memory by header: real clients of OpenAI and Anthropic, which know nothing of us."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.sidecar.chat.stage import HELLO, Stage
from tests.sidecar.engine.fake_engine import SECRET, FakeEngine
from tests.sidecar.engine.served import served

from inferscale.protocol.chat import REPORT_HEADER
from inferscale_sidecar.core import Scope
from inferscale_sidecar.engine.client import EngineClient

FACTS = tuple(f"Fact number {n} about the town." for n in range(6))
CHAT = "/v1/chat/completions"
USER = {"X-InferScale-User-Id": "alice"}
ON = {**USER, "X-InferScale-Remember": "user"}
BODY = {"model": "demo", "messages": HELLO}


async def test_the_header_names_whose_memory(stage: Stage, http):
    await stage.remember(*FACTS)
    answer = await http.post(CHAT, json=BODY, headers=USER)
    assert answer.json()["memory"]["mode"] == "injected"
    asked = stage.recall.asked[0]
    assert (asked["scope"], asked["query"]) == (Scope("alice"), HELLO[0]["content"])
    assert FACTS[0] in stage.engine.bodies[-1]["messages"][0]["content"]
    assert not any(n.startswith("x-inferscale") for n in stage.engine.requests[-1].headers)


async def test_the_body_wins_over_the_header(stage: Stage, http):
    await stage.remember(*FACTS)
    await http.post(CHAT, json=BODY | {"memory": {"user_id": "bob", "k": 3}}, headers=USER)
    assert (stage.recall.asked[0]["scope"], stage.recall.asked[0]["k"]) == (Scope("bob"), 3)
    without = await http.post(CHAT, json=BODY | {"memory": None}, headers=USER)
    assert "memory" not in without.json() and len(stage.recall.asked) == 1


async def test_all_ids(stage: Stage, http):
    headers = {**USER, "x-inferscale-agent-id": "cook", "x-inferscale-run-id": "r1"}
    headers["x-inferscale-app-id"] = "mail"
    await http.post(CHAT, json=BODY, headers=headers)
    assert stage.recall.asked[0]["scope"] == Scope("alice", "cook", "r1", "mail")


async def test_a_body_may_name_an_app_alone(stage: Stage, http):
    await http.post(CHAT, json=BODY | {"memory": {"app_id": "mail"}})
    assert stage.recall.asked[0]["scope"] == Scope(app_id="mail")
    refused = await http.post(CHAT, json=BODY | {"memory": {"app_id": "*"}})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [{"role": "system", "content": "warm up"}]}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        ("/v1/completions", {"prompt": ["a", "b"]}),
        ("/v1/completions", {"prompt": [1, 2]}),
    ],
)
async def test_what_cannot_take_memory_passes_without(stage: Stage, http, path, body):
    stage.engine._ids = lambda body: [1, 2, 3]  # the fake cannot render these
    await stage.remember()
    answer = await http.post(path, json={"model": "demo", **body}, headers=USER)
    assert answer.status_code == 200 and "memory" not in answer.json()
    assert not stage.recall.asked
    sent = stage.engine.bodies[-1]
    assert {name: sent[name] for name in body} == body


@pytest.mark.parametrize("value", ["*", "", "a b", "x" * 257])
async def test_an_id_that_is_none_is_a_400(stage: Stage, http, value):
    answer = await http.post(CHAT, json=BODY, headers={"x-inferscale-user-id": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "x-inferscale-user-id"
    assert not stage.engine.bodies


class TestRemembering:
    """Off by default; then the user's words, once for each turn."""

    async def test_only_if_asked_for(self, stage: Stage, http):
        await http.post(CHAT, json=BODY, headers=USER)
        await http.post(CHAT, json=BODY, headers={**USER, "X-InferScale-Remember": "nothing"})
        assert stage.added.texts == []
        await http.post(CHAT, json=BODY, headers=ON)
        assert stage.added.texts == [("acme", Scope("alice"), HELLO[0]["content"])]

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/v1/responses", {"input": "I moved to Oslo"}),
            ("/v1/responses", {"input": [{"role": "user", "content": "I moved to Oslo"}]}),
            ("/v1/messages", {"messages": [{"role": "user", "content": "I moved to Oslo"}]}),
        ],
    )
    async def test_on_every_endpoint_with_messages(self, stage: Stage, http, path, body):
        await http.post(path, json={"model": "demo", **body}, headers=ON)
        assert [text for *_, text in stage.added.texts] == ["I moved to Oslo"]

    async def test_a_round_of_tools_is_no_new_turn(self, stage: Stage, http):
        stage.engine._ids = lambda body: [1, 2, 3]
        tool = {"role": "tool", "tool_call_id": "c", "content": "secret of a web page"}
        messages = [*HELLO, {"role": "assistant", "content": None}, tool]
        await http.post(CHAT, json=BODY | {"messages": messages}, headers=ON)
        assert stage.added.texts == []

    async def test_streams_too(self, stage: Stage, http):
        await http.post(CHAT, json=BODY | {"stream": True}, headers=ON)
        assert len(stage.added.texts) == 1

    async def test_a_request_that_failed_leaves_nothing(self, stage: Stage, http):
        stage.engine.refuse = lambda body: True
        assert (await http.post(CHAT, json=BODY, headers=ON)).status_code == 400
        stage.engine.is_down = True
        assert (await http.post(CHAT, json=BODY, headers=ON)).status_code == 503
        assert stage.added.texts == []

    async def test_an_answer_outlives_what_cannot_be_written(self, stage: Stage, http):
        stage.added.error = RuntimeError("disk full")
        answer = await http.post(CHAT, json=BODY, headers=ON)
        assert answer.status_code == 200 and answer.json()["choices"]

    @pytest.mark.parametrize(
        "headers", [{**USER, "X-InferScale-Remember": "yes"}, {"X-InferScale-Remember": "user"}]
    )
    async def test_what_makes_no_sense_is_a_400(self, stage: Stage, http, headers):
        answer = await http.post(CHAT, json=BODY, headers=headers)
        assert answer.json()["error"]["param"] == "x-inferscale-remember"


@pytest.fixture
async def live() -> AsyncIterator[tuple[Stage, str]]:
    """A sidecar behind a socket, with memories of its one user."""
    engine = FakeEngine()
    async with served(engine.app) as engine_url, EngineClient(engine_url, SECRET) as client:
        await client.status()
        stage = Stage(engine, client)
        await stage.remember(*FACTS)
        async with served(stage.app) as url:
            yield stage, url
            await stage.warmer.stop()


@pytest.mark.timeout(30)
class TestRealClients:
    """No `extra_body`, no class of ours: a `base_url` and a header."""

    async def test_openai_chat_and_responses(self, live: Any) -> None:
        openai = pytest.importorskip("openai")
        stage, url = live
        async with openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="k", default_headers=USER
        ) as client:
            chat = await client.chat.completions.create(model="demo", messages=HELLO)
            assert chat.choices[0].message.content == "ok"
            assert chat.memory["mode"] == "injected"
            raw = await client.responses.with_raw_response.create(model="demo", input="Where?")
            assert raw.parse().output_text == "ok"
            async with httpx.AsyncClient(base_url=url) as http:
                report = (await http.get(f"/v1/reports/{raw.headers[REPORT_HEADER]}")).json()
            assert report["mode"] == "injected"
            with pytest.raises(openai.BadRequestError) as refused:
                await client.responses.create(
                    model="demo", input="x", extra_body={"memory": {"handle": 5}}
                )
            assert refused.value.param == "memory.handle"
        assert len(stage.recall.asked) == 2

    async def test_anthropic_messages(self, live: Any) -> None:
        anthropic = pytest.importorskip("anthropic")
        stage, url = live
        async with anthropic.AsyncAnthropic(
            base_url=url, api_key="k", default_headers=USER
        ) as client:
            message = await client.messages.create(
                model="demo", max_tokens=5, system="Be brief.", messages=HELLO
            )
            assert message.content[0].text == "ok"
            assert message.memory["mode"] == "injected"
            with pytest.raises(anthropic.BadRequestError, match=r"memory\.k"):
                await client.messages.create(
                    model="demo",
                    max_tokens=5,
                    messages=HELLO,
                    extra_body={"memory": {"user_id": "alice", "k": -1}},
                )
        assert len(stage.recall.asked) == 1
