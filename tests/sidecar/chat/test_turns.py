"""Memory behind the history: where it stands, and the next turn that finds its history prepared."""

import json
from typing import Any

import httpx
import pytest
from tests.sidecar.chat.stage import NOW, Stage, operation
from tests.sidecar.chat.test_memory import CHAT, FACTS
from tests.sidecar.engine.demo import demo_lists, demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.build.prefix_finder import PrefixFinder
from inferscale_sidecar.build.send import BUILD_PRIORITY
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.core import PinnedBlock, Scope, Tail
from inferscale_sidecar.engine.tokenizer import ChatTokenizer

SYSTEM = {"role": "system", "content": "Be brief."}
TALK = [
    SYSTEM,
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello yourself."},
    {"role": "user", "content": "Where does she live?"},
]
NEXT = [*TALK, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "And he?"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}]
TOOLS_BEHIND = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{% if loop.first and tools %}{{ '\n# Tools\n' + tools | tojson }}{% endif %}"
    "{{ '<|im_end|>\n' }}{% endfor %}<|im_start|>assistant\n"
)
TOOLS_BEFORE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if loop.first and tools %}{{ '# Tools\n' + tools | tojson + '\n' }}{% endif %}"
    "{{ m.content + '<|im_end|>\n' }}{% endfor %}<|im_start|>assistant\n"
)


async def ask(http: httpx.AsyncClient, messages: Any, **more: Any) -> dict[str, Any]:
    memory = {"user_id": "alice", **more.pop("memory", {})}
    body = {"model": "demo", "messages": messages, "memory": memory, **more}
    answer = await http.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def builds_of_turns(stage: Stage) -> list[dict[str, Any]]:
    """Requests that prepare a next turn."""
    return [b for b in stage.engine.bodies if b.get("priority") == BUILD_PRIORITY]


def chats(stage: Stage) -> list[dict[str, Any]]:
    return [b for b in stage.engine.bodies if "messages" in b]


async def test_in_a_conversation_memory_stands_before_the_last_words(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    report = (await ask(http, TALK))["memory"]
    assert (report["mode"], report["reason"], report["position"]) == ("injected", None, "last")
    block = demo_lists().frame.render(FACTS)
    sent = chats(stage)[-1]["messages"]
    assert sent[:-1] == TALK[:-1]
    assert sent[-1] == {"role": "user", "content": f"{block}\n\nWhere does she live?"}


async def test_a_first_turn_has_it_in_the_system_message(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    assert (await ask(http, TALK[:2]))["memory"]["position"] == "system"
    await stage.turns.wait_idle()
    assert not builds_of_turns(stage), "nobody knows that there will be a second one"


@pytest.mark.parametrize("position", ["system", "last"])
async def test_a_request_may_say_where(stage: Stage, http, position: str) -> None:
    await stage.remember(*FACTS)
    for messages in (TALK, TALK[:2]):
        report = (await ask(http, messages, memory={"position": position}))["memory"]
        assert (report["mode"], report["position"]) == ("injected", position)
        role = chats(stage)[-1]["messages"][0 if position == "system" else -1]
        assert "(end of memory)" in role["content"]


async def test_the_text_is_the_same_whether_injected_or_not(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    for inject in (True, False):
        await ask(http, TALK, memory={"inject": inject})
    injected, stuffed = chats(stage)
    assert [operation(body) for body in (injected, stuffed)] == ["inject", "show"]
    assert injected.pop("kv_transfer_params") and stuffed.pop("kv_transfer_params")
    assert injected == stuffed


async def test_the_next_turn_begins_with_what_was_prepared(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    await ask(http, TALK)
    await stage.turns.wait_idle()
    (prepared,) = builds_of_turns(stage)
    first = chats(stage)[0]
    assert prepared["cache_salt"] == first["cache_salt"], "else vLLM would not find its blocks"
    stage.engine.bodies.clear()
    report = (await ask(http, NEXT))["memory"]
    assert (report["mode"], report["position"]) == ("injected", "last")
    (only,) = [b for b in stage.engine.bodies if "messages" in b or "prompt" in b][:1]
    assert "messages" in only, "nothing was left to build ahead"
    tokenizer = demo_tokenizer()
    prompt = tokenizer.encode(tokenizer.render(only["messages"])).ids
    ids = tuple(prepared["prompt"][:-1])
    assert prompt[: len(ids)] == ids
    assert prompt[len(ids) :][:4] == demo_lists().split([FACTS[0]]).item_ids(0)[:4]


async def test_fields_that_say_nothing_do_not_make_another_turn(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    await ask(http, TALK)
    await stage.turns.wait_idle()
    before = (stage.engine.tokenized, len(stage.engine.requests))
    full = [
        m if m["role"] != "assistant" else {**m, "tool_calls": [], "refusal": None} for m in NEXT
    ]
    assert (await ask(http, full))["memory"]["mode"] == "injected"
    assert (stage.engine.tokenized, len(stage.engine.requests)) == (before[0], before[1] + 1)


async def test_a_stream_is_followed_by_the_same(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    chunk = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
    stage.engine.first_event = f"data: {json.dumps(chunk)}\n\n".encode()
    body = {"model": "demo", "messages": TALK, "memory": {"handle": "mh_acme"}, "stream": True}
    await http.post(CHAT, json=body)
    await stage.turns.wait_idle()
    (prepared,) = builds_of_turns(stage)
    assert (tenant_tag_of("acme"), tuple(prepared["prompt"][:-1])) in stage.engine.prefixes
    stage.engine.builds.clear()
    assert (await ask(http, NEXT))["memory"]["mode"] == "injected"
    assert prepared["prompt"] not in [b.get("prompt") for b in builds_of_turns(stage)[1:]]


def tenant_tag_of(name: str) -> str:
    from tests.sidecar.build.fake_store import TENANTS

    return tenant_tag(TENANTS[name])


async def test_what_the_bank_keeps_of_a_conversation_goes_in_time(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    await ask(http, TALK[:2])
    assert not stage.store.doomed, "a system message is no conversation"
    await ask(http, TALK)
    await stage.turns.wait_idle()
    assert len(stage.store.doomed) == 2 and set(stage.store.doomed.values()) == {60}


async def test_whose_conversation_it_is_is_written_down_with_it(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    stage.recall.scope = Scope("alice", run_id="t1")
    await ask(http, TALK)
    await stage.turns.wait_idle()
    assert {(tenant, tail) for tenant, tail, _ in stage.store.tails} == {
        ("acme", Tail(Scope("alice", run_id="t1"), NOW, 60))
    }


async def test_a_user_who_is_forgotten_during_an_answer_leaves_no_turn(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    stage.store.forgotten.add(Scope("alice"))
    await ask(http, TALK)
    await stage.turns.wait_idle()
    keys = {key for _, _, keys in stage.store.tails for key in keys}
    assert len(keys) == 2 and keys == set(stage.store.purges)


async def test_what_it_keeps_of_blocks_is_written_down_as_ever(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    stage.recall.blocks = (PinnedBlock("block-1", 1, "human", "Name: Noor"),)
    await ask(http, TALK)
    await stage.turns.wait_idle()
    assert [ids for _, ids, _ in stage.store.prefixes] == [("block-1",)] * 2
    report = (await ask(http, NEXT))["memory"]
    assert (report["mode"], report["blocks"]) == ("injected", 1)


async def test_a_handle_stays_where_it_was_first(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    handle = {"handle": "mh_acme", "user_id": None}
    for messages in (TALK[:2], TALK, NEXT):
        assert (await ask(http, messages, memory=handle))["memory"]["position"] == "system"
    assert (await ask(http, TALK))["memory"]["position"] == "last"
    moved = await ask(http, TALK, memory=handle | {"position": "last"})
    assert moved["memory"]["position"] == "last"


async def test_a_request_may_say_that_no_turn_follows(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    await ask(http, TALK, memory={"prepare": False})
    await stage.turns.wait_idle()
    assert not builds_of_turns(stage)


async def test_text_prepares_nothing(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    await ask(http, TALK, memory={"inject": False})
    await ask(http, [*TALK, {"role": "assistant", "content": "She"}])
    await stage.turns.wait_idle()
    assert not builds_of_turns(stage)


async def test_an_engine_that_refuses_costs_the_client_nothing(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    stage.engine.refuse = lambda body: body.get("priority") == BUILD_PRIORITY
    for messages in (TALK, NEXT):
        assert (await ask(http, messages))["memory"]["mode"] == "injected"
        await stage.turns.wait_idle()


async def test_another_tenant_cannot_use_it(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    await ask(http, TALK)
    await stage.turns.wait_idle()
    prepared = tuple(builds_of_turns(stage)[0]["prompt"][:-1])
    assert (tenant_tag_of("globex"), prepared) not in stage.engine.prefixes


@pytest.mark.parametrize(("template", "behind"), [(TOOLS_BEHIND, True), (TOOLS_BEFORE, False)])
async def test_tools_behind_the_system_text_move_memory_behind_them(template: str, behind: bool):
    engine = FakeEngine()
    engine.tokenizer = ChatTokenizer(demo_tokenizer()._hf, chat_template=template)
    async with engine.client() as client:
        await client.status()
        assert await PrefixFinder(client, demo_lists()).prints_tools_behind() is behind
        stage = Stage(engine, client)
        await stage.remember(*FACTS)
        transport = httpx.ASGITransport(stage.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://sidecar") as http:
            with_tools = (await ask(http, TALK[:2], tools=TOOLS))["memory"]["position"]
            without = (await ask(http, TALK[:2]))["memory"]["position"]
        await stage.turns.wait_idle()
        await stage.warmer.stop()
    assert (with_tools, without) == ("last" if behind else "system", "system")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"instructions": "Be brief.", "input": NEXT[1:]}),
        ("/v1/messages", {"system": "Be brief.", "messages": NEXT[1:], "max_tokens": 5}),
    ],
)
async def test_other_endpoints_have_it_there_too(stage: Stage, http, path, body) -> None:
    await stage.remember(*FACTS)
    sent = body | {"model": "demo", "memory": {"handle": "mh_acme"}}
    report = (await http.post(path, json=sent)).json()["memory"]
    assert (report["mode"], report["position"]) == ("injected", "last")
    asked = stage.engine.bodies[-1]
    last = asked.get("input") or asked["messages"]
    assert last[-1]["content"].endswith("(end of memory)\n\nAnd he?")

    await stage.turns.wait_idle()
    (prepared,) = builds_of_turns(stage)
    said = [{"role": "assistant", "content": [{"type": "text", "text": "ok"}]}]
    turn = [*NEXT[1:], *said, {"role": "user", "content": "And they?"}]
    name = "input" if "input" in body else "messages"
    stage.engine.bodies.clear()
    report = (await http.post(path, json=sent | {name: turn})).json()["memory"]
    assert (report["mode"], report["position"]) == ("injected", "last")
    assert name in stage.engine.bodies[0], "nothing was left to build ahead"
    assert prepared["cache_salt"] == stage.engine.bodies[0]["cache_salt"]


async def test_a_plain_prompt_has_no_last_message(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    memory = {"handle": "mh_acme", "position": "last"}
    body = {"model": "demo", "prompt": "She lives in", "memory": memory}
    answer = await http.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "memory.position"


async def test_images_keep_memory_in_the_system_message(stage: Stage, http) -> None:
    await stage.remember(*FACTS)
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    seen = [{"role": "user", "content": parts}, *TALK[2:]]
    stage.engine.refuse = lambda body: "messages" in body  # the fake has no eyes
    await http.post(CHAT, json={"model": "demo", "messages": seen, "memory": {"handle": "mh_acme"}})
    assert "(end of memory)" in chats(stage)[-1]["messages"][0]["content"]
