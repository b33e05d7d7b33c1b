"""Memory that is added, recalled and injected, through every client that a user may have."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from inferscale import AsyncMemory, AsyncOpenAI, Memory, MemoryHandle, OpenAI
from inferscale.protocol.chat import REPORT_HEADER

from .process import Engine, SidecarProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

QUESTION = "What is the name of Noor's cat?"
K = 20
SHORT: dict[str, Any] = {"temperature": 0, "max_tokens": 12}
Fresh = Callable[[str], MemoryHandle]


@pytest.fixture
def fresh(memory: Memory, noor: str) -> Fresh:
    """A handle whose composition was not served before, for a question of the test's own."""

    def recall(question: str) -> MemoryHandle:
        handle = memory.recall(question, user_id=noor, k=K)
        assert len(handle) == K
        assert {item.kv_state for item in handle.items} == {"ready"}
        return handle

    return recall


def ask(http: httpx.Client, handle: MemoryHandle, **fields: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": QUESTION}], **SHORT}
    body |= {"model": "smollm2-135m-instruct", "memory": handle.as_field(), **fields}
    response = http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_handle_is_injected_and_its_second_use_is_a_native_hit(
    memory: Memory, fresh: Fresh
) -> None:
    handle = fresh(QUESTION)
    first = memory.chat(QUESTION, memory=handle, **SHORT)
    assert first.text.strip()
    assert first.memory is not None and first.memory.tokens is not None
    assert (first.memory.mode, first.memory.reason) == ("injected", None)
    assert (first.memory.handle, first.memory.items) == (handle.id, K)
    tokens = first.memory.tokens
    assert first.usage is not None
    assert tokens.injected + tokens.native + tokens.prefilled == first.usage.prompt_tokens
    assert tokens.injected > tokens.prefilled, "most of the memory must not be read"

    second = memory.chat(QUESTION, memory=handle, **SHORT)
    assert second.memory is not None and second.memory.tokens is not None
    assert second.memory.mode == "injected"
    assert second.memory.tokens.native >= 256, "vLLM's own blocks (128 tokens) must be hit"
    assert second.memory.tokens.prefilled <= tokens.prefilled
    assert second.usage is not None
    assert second.usage.prompt_tokens == first.usage.prompt_tokens


def test_the_model_sees_exactly_the_text_of_the_handle(
    http: httpx.Client, fresh: Fresh, engine: Engine
) -> None:
    handle = fresh("Where does Noor live?")
    answer = ask(http, handle, return_token_ids=True)
    seen = engine.text(answer["prompt_token_ids"])
    assert f"{handle}<|im_end|>" in seen
    assert len(answer["prompt_token_ids"]) == answer["usage"]["prompt_tokens"]
    assert all(item.memory in str(handle) for item in handle.items)


def test_the_second_turn_of_a_chat_is_a_native_hit(http: httpx.Client, fresh: Fresh) -> None:
    handle = fresh("What does Noor's sister do?")
    first = ask(http, handle)
    assert first["memory"]["mode"] == "injected"
    turn = [first["choices"][0]["message"]["content"], "And what is her job?"]
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": turn[0]},
        {"role": "user", "content": turn[1]},
    ]
    second = ask(http, handle, messages=messages)
    assert second["memory"]["mode"] == "injected"
    assert second["memory"]["tokens"]["native"] >= 256


def test_without_injection_the_same_prompt_is_read_as_text(
    http: httpx.Client, fresh: Fresh
) -> None:
    handle = fresh("What is painted dark red?")
    injected = ask(http, handle)
    text = ask(http, handle, memory={"handle": handle.id, "inject": False})
    assert injected["memory"]["mode"] == "injected"
    assert injected["memory"]["tokens"]["injected"] > 0
    assert (text["memory"]["mode"], text["memory"]["reason"]) == ("text", "not_requested")
    counts = text["memory"]["tokens"]
    assert (counts["injected"], counts["native"]) == (0, 0), "approximate KV must not be found"
    assert text["usage"]["prompt_tokens"] == injected["usage"]["prompt_tokens"]
    assert text["usage"]["prompt_tokens"] == counts["prefilled"]

    again = ask(http, handle)
    assert again["memory"]["mode"] == "injected"
    assert again["memory"]["tokens"]["native"] >= 256


def test_a_stream_comes_in_pieces_and_names_its_report(
    memory: Memory, http: httpx.Client, fresh: Fresh
) -> None:
    handle = fresh("When does the choir rehearse?")
    with memory.chat(QUESTION, memory=handle, stream=True, **SHORT) as stream:
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        assert len(pieces) > 3 and "".join(pieces).strip()
        report = stream.report()
    assert (report.mode, report.handle) == ("injected", handle.id)
    assert report.tokens is not None and report.tokens.injected > 0

    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True, **SHORT}
    body |= {"model": "smollm2-135m-instruct", "memory": handle.as_field()}
    with http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        name = response.headers[REPORT_HEADER]
        reads = list(response.iter_raw())
    assert len(reads) > 3, "the stream was buffered"
    assert b"".join(reads).rstrip().endswith(b"data: [DONE]")
    again = http.get(f"/v1/reports/{name}").json()
    assert (again["request_id"], again["mode"]) == (name, "injected")


async def test_the_async_client_does_the_same(
    sidecar: SidecarProcess, keys: dict[str, str], noor: str
) -> None:
    async with AsyncMemory(sidecar.url, api_key=keys["acme"]) as memory:
        handle = await memory.recall("Who advised more sleep?", user_id=noor, k=K)
        answer = await memory.chat(QUESTION, memory=handle, **SHORT)
        assert answer.text.strip()
        assert answer.memory is not None and answer.memory.mode == "injected"
        async with await memory.chat(QUESTION, memory=handle, stream=True, **SHORT) as stream:
            assert [chunk async for chunk in stream]
            assert (await stream.report()).mode == "injected"


def test_a_user_id_recalls_within_the_request(memory: Memory, noor: str) -> None:
    answer = memory.chat("What is built of wood?", user_id=noor, k=12, **SHORT)
    assert answer.memory is not None
    assert (answer.memory.mode, answer.memory.items) == ("injected", 12)


def test_openais_client_with_memory(
    sidecar: SidecarProcess, keys: dict[str, str], fresh: Fresh
) -> None:
    handle = fresh("Which language does Noor learn?")
    client = OpenAI(base_url=sidecar.url, api_key=keys["acme"], memory=handle)
    messages: Any = [{"role": "user", "content": QUESTION}]
    chat = client.chat.completions.create(model=sidecar.model, messages=messages, **SHORT)
    assert chat.choices[0].message.content
    assert chat.model_extra is not None and chat.model_extra["memory"]["mode"] == "injected"

    text = client.completions.create(model=sidecar.model, prompt="Noor's cat", **SHORT)
    assert text.choices[0].text
    assert text.model_extra is not None
    report = text.model_extra["memory"]
    assert (report["mode"], report["items"]) == ("injected", K), report
    assert report["tokens"]["injected"] > 0

    plain = client.with_memory(None).chat.completions.create(
        model=sidecar.model, messages=messages, **SHORT
    )
    assert "memory" not in (plain.model_extra or {})
    assert [model.id for model in client.models.list()] == [sidecar.model]
    client.close()


async def test_openais_async_client_streams(
    sidecar: SidecarProcess, keys: dict[str, str], fresh: Fresh
) -> None:
    handle = fresh("What looks over the canal?")
    async with AsyncOpenAI(base_url=sidecar.url, api_key=keys["acme"], memory=handle) as client:
        messages: Any = [{"role": "user", "content": QUESTION}]
        stream = await client.chat.completions.create(
            model=sidecar.model, messages=messages, stream=True, **SHORT
        )
        assert [chunk async for chunk in stream]
        name = stream.response.headers[REPORT_HEADER]
    async with AsyncMemory(sidecar.url, api_key=keys["acme"]) as memory:
        assert (await memory.report(name)).mode == "injected"


def test_tools_pass_through(http: httpx.Client, fresh: Fresh) -> None:
    parameters = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}},
        "required": ["name"],
    }
    tool = {"type": "function", "function": {"name": "call_cat", "parameters": parameters}}
    answer = ask(
        http,
        fresh("Whom should I call?"),
        tools=[tool],
        tool_choice={"type": "function", "function": {"name": "call_cat"}},
        max_tokens=120,
    )
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "call_cat"
    assert call["function"]["arguments"], "what this small model writes there is its own affair"
    assert answer["memory"]["mode"] == "injected"


def test_structured_output_passes_through(http: httpx.Client, fresh: Fresh) -> None:
    schema = {
        "type": "object",
        "properties": {"pet": {"enum": ["cat", "dog"]}},
        "required": ["pet"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "pet", "schema": schema}}
    answer = ask(http, fresh("Which pet?"), response_format=wanted, max_tokens=30)
    assert json.loads(answer["choices"][0]["message"]["content"])["pet"] in ("cat", "dog")
    assert answer["memory"]["mode"] == "injected"
