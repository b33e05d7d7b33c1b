"""Chat with memory, through the real routes: what the engine gets and what the client hears."""

import json

import pytest
from tests.sidecar.chat.stage import HELLO, Stage, operation
from tests.sidecar.engine.demo import demo_lists

from inferscale.protocol.chat import REPORT_HEADER
from inferscale_sidecar.core import Scope

FACTS = tuple(f"Fact number {n} about the town." for n in range(10))
CHAT = "/v1/chat/completions"


def ask(memory, **more):
    return {"model": "demo", "messages": HELLO, "memory": memory, **more}


async def test_all_but_the_best_items_are_injected_from_the_first_request_on(stage: Stage, http):
    await stage.remember(*FACTS)
    answer = await http.post(CHAT, json=ask({"handle": "mh_acme"}))
    report = answer.json()["memory"]
    assert (report["mode"], report["reason"], report["items"]) == ("injected", None, 10)
    assert report["handle"] == "mh_acme" and report["tokens"]["injected"] > 0
    assert answer.headers[REPORT_HEADER] == report["request_id"]
    assert answer.json()["kv_transfer_params"] is None
    sent = stage.engine.bodies[-1]
    assert "memory" not in sent
    keys = sent["kv_transfer_params"]["inferscale"]["items"]
    assert [stage.engine.bank[k] for k in keys] == [
        demo_lists().split([text]).item_ids(0) for text in FACTS[:8]
    ]


async def test_the_text_is_the_same_whether_injected_or_not(stage: Stage, http):
    await stage.remember(*FACTS)
    for inject in (True, False):
        await http.post(CHAT, json=ask({"handle": "mh_acme", "inject": inject}))
    injected, stuffed = stage.engine.bodies[-2:]
    assert [operation(body) for body in (injected, stuffed)] == ["inject", "show"]
    assert injected.pop("kv_transfer_params") and stuffed.pop("kv_transfer_params")
    assert injected == stuffed
    assert injected["messages"][0]["content"] == demo_lists().frame.render(FACTS)


async def test_without_injection_the_report_says_so_and_counts(stage: Stage, http):
    await stage.remember(*FACTS)
    answer = await http.post(CHAT, json=ask({"handle": "mh_acme", "inject": False}))
    report = answer.json()["memory"]
    assert (report["mode"], report["reason"]) == ("text", "not_requested")
    assert report["tokens"]["prefilled"] == answer.json()["usage"]["prompt_tokens"]


async def test_fidelity_is_a_field_of_each_request(stage: Stage, http):
    await stage.remember(*FACTS)
    field = {"handle": "mh_acme"}
    fast = await http.post(CHAT, json=ask({**field, "fidelity": "fast"}))
    assert len(stage.engine.bodies[-1]["kv_transfer_params"]["inferscale"]["items"]) == 10
    assert fast.json()["memory"]["mode"] == "injected"
    exact = await http.post(CHAT, json=ask({**field, "fidelity": "exact"}))
    assert operation(stage.engine.bodies[-1]) == "show"
    report = exact.json()["memory"]
    assert (report["mode"], report["reason"]) == ("text", "not_requested")
    wrong = await http.post(CHAT, json=ask({**field, "fidelity": "perfect"}))
    assert wrong.status_code == 400


async def test_only_leading_items_with_kv_are_asked_for(stage: Stage, http):
    await stage.remember(*FACTS)
    del stage.store.kv["m0003", 1, "fp-1@bank-1"]
    report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
    assert (report["mode"], report["reason"]) == ("partial", "items_missing")
    sent = stage.engine.bodies[-1]["kv_transfer_params"]["inferscale"]["items"]
    assert sent == [stage.store.kv[f"m000{n}", 1, "fp-1@bank-1"].key for n in range(3)]


async def test_with_nothing_built_the_text_is_served(stage: Stage, http):
    stage.store.add(*FACTS)
    report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
    assert (report["mode"], report["reason"]) == ("text", "no_items")
    assert FACTS[9] in stage.engine.bodies[-1]["messages"][0]["content"]
    assert ("fallback", "no_items") in stage.recorder.events


async def test_injection_switched_off_in_the_engine_is_text(stage: Stage, http):
    await stage.remember(*FACTS)
    await stage.client.set_injection(False, "test")
    report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
    assert (report["mode"], report["reason"]) == ("text", "disabled")
    assert operation(stage.engine.bodies[-1]) == "show"


async def test_a_key_that_the_bank_lost_is_text_now_and_built_again(stage: Stage, http):
    await stage.remember(*FACTS)
    stage.engine.bank.clear()
    report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
    assert (report["mode"], report["reason"]) == ("text", "items_missing")
    await stage.remember()
    report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
    assert report["mode"] == "injected"


async def test_recall_inside_searches_with_the_last_user_message(stage: Stage, http):
    await stage.remember(*FACTS)
    messages = [*HELLO, {"role": "assistant", "content": "?"}, {"role": "user", "content": "And?"}]
    body = ask({"user_id": "alice", "k": 7, "threshold": 0.1}) | {"messages": messages}
    await http.post(CHAT, json=body)
    await http.post(CHAT, json=ask({"user_id": "alice", "query": "tea"}))
    first, second = stage.recall.asked
    assert (first["scope"], first["query"], first["k"]) == (Scope("alice"), "And?", 7)
    assert (first["tenant"], first["threshold"], second["query"]) == ("acme", 0.1, "tea")


async def test_no_memory_found_is_no_block_and_mode_none(stage: Stage, http):
    answer = await http.post(CHAT, json=ask({"user_id": "alice"}))
    assert answer.json()["memory"]["mode"] == "none"
    assert stage.engine.bodies[-1]["messages"] == HELLO
    assert REPORT_HEADER in answer.headers


async def test_completions_get_the_block_before_the_prompt(stage: Stage, http):
    await stage.remember(*FACTS)
    body = {"model": "demo", "prompt": "She lives in", "memory": {"handle": "mh_acme"}}
    report = (await http.post("/v1/completions", json=body)).json()["memory"]
    assert report["mode"] == "injected"
    block = demo_lists().frame.render(FACTS)
    assert stage.engine.bodies[-1]["prompt"] == f"{block}\n\nShe lives in"


async def test_everything_else_in_the_body_reaches_the_engine_untouched(stage: Stage, http):
    extras = {
        "n": 2,
        "temperature": 0.25,
        "logprobs": True,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "response_format": {"type": "json_object"},
        "made_up": {"ünï": [1, None]},
        "kv_transfer_params": {"theirs": 1},
    }
    await stage.remember(*FACTS)
    await http.post(CHAT, json=ask({"handle": "mh_acme"}, **extras))
    sent = stage.engine.bodies[-1]
    assert sent["kv_transfer_params"].pop("inferscale")
    assert {name: sent[name] for name in extras} == extras
    await http.post(CHAT, json={"model": "demo", "messages": HELLO, **extras})
    plain = stage.engine.bodies[-1]
    assert len(plain.pop("cache_salt")) == 64
    assert plain == {"model": "demo", "messages": HELLO, **extras}


async def test_the_engines_errors_keep_their_status_and_words(stage: Stage, http):
    stage.engine.refuse = lambda body: True
    answer = await http.post(CHAT, json=ask({"user_id": "alice"}))
    assert answer.status_code == 400 and answer.json()["error"]["message"] == "too hot"
    assert REPORT_HEADER in answer.headers


async def test_an_engine_that_is_down_is_503_with_retry_after(stage: Stage, http):
    stage.engine.is_down = True
    answer = await http.post(CHAT, json=ask({"handle": "mh_acme"}))
    assert answer.status_code == 503 and "retry-after" in answer.headers
    assert answer.json()["error"]["code"] == "engine_unavailable"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (ask("mh_acme"), "memory"),
        (ask({}), "memory"),
        (ask({"handle": "mh_acme", "user_id": "alice"}), "memory"),
        (ask({"user_id": "*"}), "memory.user_id"),
        (ask({"user_id": "alice", "k": -1}), "memory.k"),
        (ask({"user_id": "alice", "k": 10**6}), "memory.k"),
        (ask({"user_id": "alice", "top_k": 5}), "memory.top_k"),
        (ask({"user_id": "alice", "query": "a\x00b"}), "memory.query"),
        (
            ask({"user_id": "alice"}) | {"messages": [{"role": "user", "content": " "}]},
            "memory.query",
        ),
        (ask({"user_id": "alice"}) | {"messages": "hi"}, "messages"),
        (ask({"handle": "mh_acme"}, kv_transfer_params={"inferscale": {}}), "inferscale"),
        (
            ask({"handle": "mh_acme"}, kv_transfer_params={"prompt_token_ids": [1]}),
            "prompt_token_ids",
        ),
        (ask(None, kv_transfer_params={"do_remote_prefill": True}), "do_remote_prefill"),
        (ask(None, kv_transfer_params={"remote_host": "x"}), "remote_host"),
        (ask(None, kv_transfer_params=[1]), "kv_transfer_params"),
        (ask(None, vllm_xargs={"kv_transfer_params": "x"}), "vllm_xargs.kv_transfer_params"),
        (ask(None, cache_salt=5), "cache_salt"),
    ],
)
async def test_a_bad_field_is_a_400_that_names_it(stage: Stage, http, body, param):
    answer = await http.post(CHAT, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].endswith(param)
    assert not stage.engine.bodies


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 200_000,
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"temperature": NaN}',
        b"\xff\xfe",
    ],
    ids=["empty", "list", "cut", "deep", "surrogate", "nan", "not-utf8"],
)
async def test_a_body_that_is_no_json_object_is_a_400(stage: Stage, http, raw):
    answer = await http.post(CHAT, content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"]["message"]
    assert not stage.engine.bodies


async def test_batches_of_prompts_cannot_have_memory(stage: Stage, http):
    stage.store.add(*FACTS)
    body = {"model": "demo", "prompt": ["a", "b"], "memory": {"handle": "mh_acme"}}
    answer = await http.post("/v1/completions", json=body)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "prompt"


async def test_a_mebibyte_of_question_is_served(stage: Stage, http):
    body = ask({"user_id": "alice"}) | {"messages": [{"role": "user", "content": "é" * 2**19}]}
    assert (await http.post(CHAT, json=body)).status_code == 200
    assert 0 < len(stage.recall.asked[0]["query"]) <= 8192


async def test_a_lone_surrogate_never_reaches_the_embedder(stage: Stage, http):
    """Tokenizers raise TypeError for it; the answer must be a 400 that names it."""
    body = ask({"user_id": "alice"}) | {"messages": [{"role": "user", "content": "half \ud83d"}]}
    answer = await http.post(
        CHAT, content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400 and "surrogate" in answer.json()["error"]["message"]
    assert stage.recall.asked[0]["query"] == "half"


async def test_reports_are_kept_and_metrics_written(stage: Stage, http):
    await stage.remember(*FACTS)
    answer = await http.post(CHAT, json=ask({"handle": "mh_acme"}))
    stage.engine.reports.clear()
    name = answer.headers[REPORT_HEADER]
    assert (await http.get(f"/v1/reports/{name}")).json() == answer.json()["memory"]
    assert ("duration", "injected") in stage.recorder.events
    assert dict(stage.recorder.events)["injected"] == answer.json()["memory"]["tokens"]["injected"]
    assert json.loads(json.dumps(answer.json()))["choices"]
