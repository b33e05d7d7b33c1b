"""Pinned blocks in chats: always there, before the memories, which are injected all the same."""

from tests.sidecar.chat.stage import Stage, operation
from tests.sidecar.chat.test_memory import CHAT, FACTS, ask
from tests.sidecar.engine.demo import demo_lists

from inferscale_sidecar.core import PinnedBlock

HUMAN = PinnedBlock("block-1", 3, "human", "Name: Noor\n- has a cat", "who she is")


async def test_memories_behind_a_block_are_injected_from_the_first_request_on(stage: Stage, http):
    await stage.remember(*FACTS)
    stage.recall.blocks = (HUMAN,)
    for body in (
        ask({"handle": "mh_acme"}),
        ask({"user_id": "alice"}),
        {"model": "demo", "prompt": "She lives in", "memory": {"handle": "mh_acme"}},
    ):
        path = CHAT if "messages" in body else "/v1/completions"
        report = (await http.post(path, json=body)).json()["memory"]
        assert (report["mode"], report["reason"]) == ("injected", None)
        assert (report["items"], report["blocks"]) == (10, 1)
    chat = stage.engine.bodies[1]["messages"][0]["content"]
    assert chat == demo_lists().frame.render(FACTS, [HUMAN])
    assert chat.index("Name: Noor") < chat.index(FACTS[0])


async def test_what_the_engine_keeps_of_a_block_is_written_down(stage: Stage, http):
    await stage.remember(*FACTS)
    await http.post(CHAT, json=ask({"handle": "mh_acme"}))
    assert stage.store.prefixes == []
    stage.recall.blocks = (HUMAN,)
    for _ in range(2):
        await http.post(CHAT, json=ask({"handle": "mh_acme"}))
    ((fingerprint, ids, keys),) = stage.store.prefixes
    assert (fingerprint, ids, len(keys)) == ("fp-1@bank-1", ("block-1",), 1)


async def test_a_changed_block_is_another_prefix(stage: Stage, http):
    await stage.remember(*FACTS)
    for value in ("one", "two", "one"):
        stage.recall.blocks = (PinnedBlock("block-1", 1, "human", value),)
        report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
        assert report["mode"] == "injected"
    assert len(stage.engine.builds) == 2


async def test_a_block_that_quotes_a_memory_does_not_move_the_injection(stage: Stage, http):
    await stage.remember(*FACTS)
    stage.recall.blocks = (PinnedBlock("block-1", 1, "human", "\n".join(f"- {f}" for f in FACTS)),)
    report = (await http.post(CHAT, json=ask({"handle": "mh_acme"}))).json()["memory"]
    assert (report["mode"], report["reason"]) == ("injected", None)


async def test_a_block_alone_is_text_and_nothing_is_built_for_it(stage: Stage, http):
    stage.recall.blocks = (HUMAN,)
    answer = (await http.post(CHAT, json=ask({"user_id": "alice"}))).json()
    report = answer["memory"]
    assert (report["mode"], report["reason"], report["items"], report["blocks"]) == (
        *("text", None),
        *(0, 1),
    )
    assert report["tokens"]["prefilled"] == answer["usage"]["prompt_tokens"]
    sent = stage.engine.bodies[-1]
    assert operation(sent) == "show" and not stage.engine.builds
    assert sent["messages"][0]["content"] == demo_lists().frame.render([], [HUMAN])


async def test_a_budget_reaches_recall(stage: Stage, http):
    await http.post(CHAT, json=ask({"user_id": "alice", "max_tokens": 70}))
    assert stage.recall.asked[0]["max_tokens"] == 70
    wrong = await http.post(CHAT, json=ask({"user_id": "alice", "max_tokens": 0}))
    assert wrong.json()["error"]["param"] == "memory.max_tokens"
