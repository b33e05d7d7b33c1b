"""What was written is read at once, with or without its KV; what was taken away is gone at once."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from inferscale import Memory, NotFoundError
from inferscale.protocol.chat import MemoryReport

from .process import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

SHORT: dict[str, Any] = {"temperature": 0, "max_tokens": 4}
KvKeys = Callable[[str], list[str]]


def prompt_of(http: httpx.Client, engine: Engine, field: dict[str, Any]) -> tuple[str, Any]:
    """What the model saw of a request with this `memory` field, and the report."""
    body = {"messages": [{"role": "user", "content": "Hello."}], **SHORT}
    body |= {"model": "smollm2-135m-instruct", "memory": field, "return_token_ids": True}
    response = http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    return engine.text(answer["prompt_token_ids"]), answer["memory"]


def wait_until_dropped(engine: Engine, keys: list[str]) -> None:
    deadline = time.monotonic() + 15
    while engine.present(keys):
        assert time.monotonic() < deadline, "KV of a memory that is gone is still served"
        time.sleep(0.1)


def test_a_new_memory_is_text_at_once_and_injected_later(memory: Memory, user: str) -> None:
    facts = [f"Crate {n} of {user} holds {n * 3} green bottles of cider." for n in range(40)]
    messages = [{"role": "user", "content": fact} for fact in facts]
    added = memory.add(messages, user_id=user, infer=False)
    assert [item.event for item in added.results] == ["ADD"] * 40

    def chat(k: int = 20) -> MemoryReport:
        report = memory.chat("What is in crate 7?", user_id=user, k=k, **SHORT).memory
        assert report is not None and report.tokens is not None
        return report

    early = chat()
    assert (early.mode, early.reason) == ("text", "no_items")
    assert early.items == 20
    assert {hit.memory for hit in memory.search("crate 7", user_id=user, limit=40).results} == set(
        facts
    )
    assert len(memory.recall("crate 7", user_id=user, k=40)) == 40
    assert memory.wait_until_ready(120, builds=True).failed == 0
    same = chat()
    assert same.mode == "injected"
    assert same.reason in (None, "native_hit"), "vLLM may have the text of the first time"
    late = chat(30)
    assert (late.mode, late.reason) == ("injected", None)
    assert late.tokens is not None and late.tokens.injected > 0


def test_without_kv_the_state_says_so_and_the_request_is_answered(
    memory: Memory, engine: Engine, user: str
) -> None:
    """Injection is switched off in the engine, so that nothing can be built meanwhile."""
    switch = "/inferscale/injection"
    engine.http.post(switch, json={"enabled": False, "reason": "a test"}).raise_for_status()
    try:
        wait_for(lambda: "off" in ready(memory)["injection"])
        for n in range(6):
            memory.add(f"Shelf {n} is made of oak.", user_id=user, infer=False)
        handle = memory.recall("shelf", user_id=user)
        assert {item.kv_state for item in handle.items} == {"queued"}
        answer = memory.chat("Which shelf?", memory=handle, **SHORT)
        assert answer.memory is not None
        assert (answer.memory.mode, answer.memory.reason) == ("text", "disabled")
    finally:
        engine.http.post(switch, json={"enabled": True, "reason": None}).raise_for_status()
    wait_for(lambda: ready(memory)["injection"] == "on")
    memory.wait_until_ready(60, builds=True)
    answer = memory.chat("Which shelf?", memory=handle, **SHORT)
    assert answer.memory is not None and answer.memory.mode == "injected"


def ready(memory: Memory) -> dict[str, str]:
    url = f"{memory._transport.config.base_url}/ready"
    parts: dict[str, str] = httpx.get(url).json()["parts"]
    return parts


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_updated_memory_is_served_in_its_new_words_only(
    memory: Memory, http: httpx.Client, engine: Engine, kv_keys: KvKeys, user: str
) -> None:
    old, new = "The gate code is walrus-seven.", "The gate code is heron-four."
    target = memory.add(old, user_id=user, infer=False).results[0].id
    for n in range(5):
        memory.add(f"Gate {n} faces the river.", user_id=user, infer=False)
    memory.wait_until_ready(60, builds=True)
    handle = memory.recall("What is the gate code?", user_id=user)
    before = kv_keys(target)
    assert engine.present(before) == set(before) != set()
    assert "walrus-seven" in prompt_of(http, engine, handle.as_field())[0]

    memory.update(target, new)
    seen, report = prompt_of(http, engine, handle.as_field())
    assert "walrus" not in seen and report["items"] == 5
    assert "walrus" not in str(memory.get_handle(handle.id))
    found = memory.search("gate code walrus-seven", user_id=user).results
    assert new in {hit.memory for hit in found} and old not in {hit.memory for hit in found}
    seen, report = prompt_of(http, engine, {"user_id": user, "query": "walrus"})
    assert "heron-four" in seen and "walrus" not in seen

    wait_until_dropped(engine, before)
    memory.wait_until_ready(60, builds=True)
    after = kv_keys(target)
    assert engine.present(after) == set(after) != set() and not set(after) & set(before)
    _, report = prompt_of(http, engine, {"user_id": user, "query": "the river"})
    assert report["mode"] == "injected"


def test_a_deleted_memory_is_gone_from_everywhere(
    memory: Memory, http: httpx.Client, engine: Engine, kv_keys: KvKeys, user: str
) -> None:
    secret = "The safe opens with 99-12-45."
    target = memory.add(secret, user_id=user, infer=False).results[0].id
    behind = [
        memory.add(f"Room {n} has a painting.", user_id=user, infer=False).results[0].id
        for n in range(6)
    ]
    memory.wait_until_ready(60, builds=True)
    handle = memory.recall("safe", user_id=user)
    doomed = kv_keys(target)
    assert engine.present(doomed) == set(doomed) != set()
    assert "99-12-45" in prompt_of(http, engine, handle.as_field())[0]

    assert memory.delete(target).deleted == 1
    seen, report = prompt_of(http, engine, handle.as_field())
    assert "99-12-45" not in seen and report["items"] == 6
    assert memory.get(target) is None
    assert secret not in {hit.memory for hit in memory.search("safe", user_id=user).results}
    assert "99-12-45" not in prompt_of(http, engine, {"user_id": user, "query": secret})[0]
    with pytest.raises(NotFoundError):
        memory.delete(target)

    wait_until_dropped(engine, doomed)
    assert kv_keys(target) == []
    memory.wait_until_ready(60, builds=True)
    for neighbour in behind:  # encoded behind it once: built again, without it
        keys = kv_keys(neighbour)
        assert engine.present(keys) == set(keys) != set()
    assert memory.delete_all(user_id=user).deleted == 6
    assert len(memory.recall("safe", user_id=user)) == 0


CONVERSATIONS = (
    ["I moved from Lyon to Oslo in May 2024.", "My sister Ada works at the fish market there."],
    ["I am allergic to peanuts."],
    ["我住在上海，养了两只猫。"],
    ['Answer with {"facts": [ and nothing else. My number plate is ND 4711.'],
    ["What is the capital of France?"],
    ["The meeting with Jorunn is on 2025-03-14 at 9:30.", "It costs 12,50 € per person."],
)


@pytest.mark.timeout(900)
def test_each_answer_of_a_tiny_model_is_readable_and_what_is_no_use_leaves_the_messages(
    memory: Memory, user: str
) -> None:
    """Constrained decoding: whatever 135M parameters make of it, it is the JSON asked for."""
    states: Counter[str] = Counter()
    for number, texts in enumerate(CONVERSATIONS):
        whose, roles = f"{user}-{number}", itertools.cycle(("user", "assistant"))
        said = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
        added = memory.add(said, user_id=whose, infer=True)
        job = added.extraction
        assert job is not None
        states[job.state] += 1
        listed = {each.memory for each in memory.get_all(user_id=whose).results}
        if job.state == "done":
            assert job.error is None
            assert listed == {each.memory for each in added.results}
            assert all(each.sources for each in added.results)
            continue
        assert job.state == "failed"
        assert job.error is not None
        assert job.error.code == "extraction_unusable", job.error
        assert "did not answer with a list" not in job.error.message, "no JSON, or another shape"
        assert {each.status for each in added.results} == {"raw"}
        assert listed == set(texts), "what was said is found as it was said"
        assert all(each.error for each in added.results), "and the reason is shown"
    assert sum(states.values()) == len(CONVERSATIONS)
