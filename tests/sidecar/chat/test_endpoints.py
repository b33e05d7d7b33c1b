"""Responses and Anthropic Messages: the same prompt as a chat's, injected and reported alike."""

from typing import Any

import pytest
from tests.sidecar.chat.stage import Stage
from tests.sidecar.engine.demo import demo_lists
from tests.sidecar.engine.fake_shapes import as_chat

from inferscale.protocol.chat import REPORT_HEADER
from inferscale_sidecar.service.chat_place import places

FACTS = tuple(f"Fact number {n} about the town." for n in range(10))
ASKED = "Where does she live?"
SYSTEM = "Be brief."
CHAT = "/v1/chat/completions"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {"instructions": SYSTEM, "input": ASKED},
    "/v1/messages": {
        "system": SYSTEM,
        "max_tokens": 9,
        "messages": [{"role": "user", "content": ASKED}],
    },
}
PATHS = list(BODIES)
MEMORY = {"memory": {"handle": "mh_acme"}}


@pytest.mark.parametrize("path", PATHS)
async def test_they_are_injected_from_the_first_request_on(stage: Stage, http, path):
    await stage.remember(*FACTS)
    answer = await http.post(path, json={"model": "demo", **BODIES[path], **MEMORY})
    report = answer.json()["memory"]
    assert (report["mode"], report["reason"], report["items"]) == ("injected", None, 10)
    assert report["tokens"]["injected"] > 0
    assert answer.headers[REPORT_HEADER] == report["request_id"]
    assert (await http.get(f"/v1/reports/{report['request_id']}")).json() == report
    assert "memory" not in stage.engine.bodies[-1]


@pytest.mark.parametrize("path", PATHS)
async def test_the_prompt_is_that_of_a_chat(stage: Stage, http, path):
    await stage.remember(*FACTS)
    await http.post(path, json={"model": "demo", **BODIES[path], **MEMORY})
    ours = as_chat(path, stage.engine.bodies[-1])["messages"]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]
    await http.post(CHAT, json={"model": "demo", "messages": messages, **MEMORY})
    assert ours == stage.engine.bodies[-1]["messages"]


@pytest.mark.parametrize("path", PATHS)
async def test_without_a_system_message_there_is_one(stage: Stage, http, path):
    await stage.remember(*FACTS)
    body = {n: v for n, v in BODIES[path].items() if n not in ("system", "instructions")}
    answer = await http.post(path, json={"model": "demo", **body, **MEMORY})
    assert answer.json()["memory"]["mode"] == "injected"
    system = as_chat(path, stage.engine.bodies[-1])["messages"][0]
    assert system == {"role": "system", "content": demo_lists().frame.render(FACTS)}


async def test_parts_of_a_system_message_stay_parts(stage: Stage, http):
    """The prefix is not built ahead then; the second request finds what the first one left."""
    await stage.remember(*FACTS)
    parts = [{"type": "text", "text": "Be"}, {"type": "text", "text": " brief."}]
    body = {"model": "demo", **BODIES["/v1/messages"], "system": parts, **MEMORY}
    reports = [(await http.post("/v1/messages", json=body)).json()["memory"] for _ in range(2)]
    assert [r["reason"] for r in reports] == ["prefix_not_captured", None]
    assert stage.engine.bodies[-1]["system"][:2] == parts


@pytest.mark.parametrize("path", PATHS)
async def test_tools_and_reasoning_are_left_to_the_engine(stage: Stage, http, path):
    await stage.remember(*FACTS)
    tools = {"tools": [{"type": "function", "name": "f", "parameters": {}}]}
    body = {"model": "demo", **BODIES[path], **tools, **MEMORY}
    assert (await http.post(path, json=body)).status_code == 200
    assert stage.engine.bodies[-1]["tools"] == tools["tools"]
    assert stage.engine.bodies[-1]["kv_transfer_params"]["inferscale"]["items"]


@pytest.mark.parametrize("path", PATHS)
async def test_text_is_counted_from_the_usage_of_the_endpoint(stage: Stage, http, path):
    await stage.remember(*FACTS)
    memory = {"memory": {"handle": "mh_acme", "inject": False}}
    answer = (await http.post(path, json={"model": "demo", **BODIES[path], **memory})).json()
    tokens = answer["memory"]["tokens"]
    total = len(stage.engine._ids(as_chat(path, stage.engine.bodies[-1])))
    assert (tokens["native"], tokens["prefilled"]) == (3, total - 3)


@pytest.mark.parametrize("path", PATHS)
async def test_without_memory_only_the_salt_is_added(stage: Stage, http, path):
    body = {"model": "demo", **BODIES[path], "cache_salt": "mine", "new_field": 1}
    answer = await http.post(path, json=body)
    assert "memory" not in answer.json() and REPORT_HEADER not in answer.headers
    sent = stage.engine.bodies[-1]
    assert len(sent.pop("cache_salt")) == 64
    assert sent == {n: v for n, v in body.items() if n != "cache_salt"}


@pytest.mark.parametrize("path", PATHS)
async def test_streams_pass_with_a_report_beside_them(stage: Stage, http, path):
    await stage.remember(*FACTS)
    body = {"model": "demo", **BODIES[path], **MEMORY, "stream": True}
    answer = await http.post(path, json=body)
    assert answer.text.endswith("data: [DONE]\n\n")
    report = (await http.get(f"/v1/reports/{answer.headers[REPORT_HEADER]}")).json()
    assert report["mode"] == "injected"


@pytest.mark.parametrize(
    ("path", "change", "param"),
    [
        ("/v1/responses", {"input": 5}, "input"),
        ("/v1/responses", {"input": ["x"]}, "input"),
        ("/v1/responses", {"instructions": []}, "instructions"),
        ("/v1/responses", {"background": True}, "background"),
        ("/v1/messages", {"messages": "x"}, "messages"),
        ("/v1/messages", {"system": 5}, "system"),
        ("/v1/messages", {"memory": {"handle": "mh_acme", "x": 1}}, "memory.x"),
        ("/v1/responses", {"kv_transfer_params": {"inferscale": {}}}, "inferscale"),
    ],
)
async def test_a_bad_field_is_a_400_that_names_it(stage: Stage, http, path, change, param):
    stage.store.add(*FACTS)
    answer = await http.post(path, json={"model": "demo", **BODIES[path], **MEMORY, **change})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].endswith(param)
    assert not stage.engine.bodies


@pytest.mark.parametrize(
    ("endpoint", "body", "said"),
    [
        ("responses", {"input": "a"}, "a"),
        ("responses", {"input": [{"role": "user", "content": "a"}, {"type": "x"}]}, "a"),
        (
            "responses",
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]},
            "a",
        ),
        (
            "messages",
            {
                "messages": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": "b"},
                    {"role": "user", "content": [{"type": "tool_result", "content": "c"}]},
                ]
            },
            "a",
        ),
        ("messages", {"messages": []}, ""),
    ],
)
def test_what_the_user_said(endpoint, body, said):
    assert places(demo_lists().frame, "system")[endpoint].said(body) == said


@pytest.mark.parametrize(
    ("endpoint", "body", "placed"),
    [
        ("responses", {"input": "a"}, {"input": "B\n\na"}),
        (
            "responses",
            {"input": [{"role": "user", "content": "a"}]},
            {"input": [{"role": "user", "content": "B\n\na"}]},
        ),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "B\n\n"}, {"type": "image"}],
                    }
                ]
            },
        ),
    ],
)
def test_models_without_a_system_role_have_it_with_the_user(endpoint, body, placed):
    places(demo_lists().frame, "user")[endpoint].put(body, "B")
    assert body == placed
