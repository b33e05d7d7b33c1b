"""Whatever is sent: a clear 4xx in OpenAI's shape, or correct handling; the sidecar lives on."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from inferscale import Memory

from .process import Engine
from .wire import (
    ADD,
    CHAT,
    MODEL,
    RECALL,
    SEARCH,
    SURROGATE,
    add,
    chat,
    error_of,
    post,
    recall,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def alive_afterwards(
    http: httpx.Client, memory: Memory, engine: Engine, noor: str
) -> Iterator[None]:
    """After all of this module the sidecar is healthy, builds, injects, and wrote no traceback."""
    yield
    assert http.get("/health").json() == {"status": "ok"}
    ready = http.get("/ready").json()
    assert ready["status"] == "ready" and "restarts" not in ready["parts"], ready
    memory.delete_all(user_id="bad")
    memory.add("The tap in the yard still works.", user_id="bad", infer=False)
    assert memory.wait_until_ready(60, builds=True).failed == 0
    answer = memory.chat("Which tap of Noor?", user_id=noor, k=13, max_tokens=2)
    assert answer.memory is not None and answer.memory.mode == "injected"
    assert engine.running() == 0


REFUSED: dict[str, tuple[str, Any]] = {
    "NUL in a memory": (ADD, add("a\x00b")),
    "lone surrogate in a memory": (ADD, add(SURROGATE)),
    "1 MB memory": (ADD, add("word " * 200_000)),
    "10,001 messages": (ADD, add([{"role": "user", "content": f"{n}"} for n in range(10_001)])),
    "no messages": (ADD, {"user_id": "bad", "infer": False}),
    "messages of a wrong type": (ADD, add(17)),
    "no scope": (ADD, {"messages": "text", "infer": False}),
    "empty user": (ADD, add("text", user_id="")),
    "wildcard user": (ADD, add("text", user_id="*")),
    "blank user": (ADD, add("text", user_id=" ")),
    "NUL in a user": (ADD, add("text", user_id="a\x00")),
    "lone surrogate in a user": (ADD, add("text", user_id=SURROGATE)),
    "unknown field": (ADD, add("text", colour="red")),
    "metadata that is not JSON": (ADD, b'{"messages":"x","user_id":"bad","metadata":{"n":NaN}}'),
    "not JSON": (ADD, b"{"),
    "not an object": (ADD, b"[]"),
    "deep nesting": (ADD, b"[" * 100_000),
    "invalid UTF-8": (ADD, b'{"messages":"\xff","user_id":"bad"}'),
    "empty query": (RECALL, recall(query="")),
    "blank query": (RECALL, recall(query=" \n ")),
    "NUL query": (RECALL, recall(query="\x00")),
    "surrogate query": (RECALL, recall(query=SURROGATE)),
    "negative k": (RECALL, recall(k=-1)),
    "huge k": (RECALL, recall(k=10**9)),
    "k beyond 64 bits": (RECALL, recall(k=10**30)),
    "k as text": (RECALL, recall(k="many")),
    "no time to live": (RECALL, recall(ttl_s=0)),
    "negative limit": (SEARCH, recall(limit=-1)),
    "huge limit": (SEARCH, recall(limit=10**9)),
    "chat with negative k": (CHAT, chat(memory={"user_id": "bad", "k": -3})),
    "chat with huge k": (CHAT, chat(memory={"user_id": "bad", "k": 10**9})),
    "chat with handle and user": (CHAT, chat(memory={"user_id": "bad", "handle": "mh_1"})),
    "chat with neither": (CHAT, chat(memory={"k": 3})),
    "chat with a wildcard": (CHAT, chat(memory={"user_id": "*"})),
    "chat with memory as text": (CHAT, chat(memory="mh_1")),
    "chat with an unknown memory field": (CHAT, chat(memory={"user_id": "bad", "limit": 3})),
    "chat without messages": (CHAT, {"model": MODEL, "memory": {"user_id": "bad"}}),
    "chat with empty messages": (CHAT, chat(messages=[], memory={"user_id": "bad"})),
    "chat with an empty question": (
        CHAT,
        chat(messages=[{"role": "user", "content": ""}], memory={"user_id": "bad"}),
    ),
    "chat with a surrogate": (CHAT, chat(messages=[{"role": "user", "content": SURROGATE}])),
    "chat with a surrogate and memory": (
        CHAT,
        chat(messages=[{"role": "user", "content": SURROGATE}], memory={"user_id": "noor"}),
    ),
    "chat that is too long": (
        CHAT,
        chat(messages=[{"role": "user", "content": "word " * 200_000}]),
    ),
    "chat that is too long, with memory": (
        CHAT,
        chat(messages=[{"role": "user", "content": "word " * 200_000}], memory={"user_id": "noor"}),
    ),
    "chat that is not JSON": (CHAT, b"{"),
    "chat nested deeply": (CHAT, b'{"model":' + b"[" * 100_000),
    "completion of a batch with memory": (
        "/v1/completions",
        {"model": MODEL, "prompt": ["a", "b"], "memory": {"user_id": "noor"}},
    ),
    "forged operation": (CHAT, chat(kv_transfer_params={"inferscale": {"op": "inject"}})),
    "forged prompt": (CHAT, chat(kv_transfer_params={"prompt_token_ids": [1, 2]})),
    "forged in xargs": (CHAT, chat(vllm_xargs={"kv_transfer_params": "{}"})),
    "forged in a completion": (
        "/v1/completions",
        {"model": MODEL, "prompt": "a", "kv_transfer_params": {"inferscale": {}}},
    ),
    "forged in responses": (
        "/v1/responses",
        {"model": MODEL, "input": "a", "kv_transfer_params": {"inferscale": {}}},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_reason(http: httpx.Client, name: str) -> None:
    path, body = REFUSED[name]
    response = post(http, path, body)
    assert response.status_code in (400, 413, 422), (response.status_code, response.text[:300])
    error = error_of(response)
    assert "\x00" not in error["message"] and len(error["message"]) < 2_000


UNKNOWN: dict[str, tuple[str, str, Any]] = {
    "model": ("POST", CHAT, chat(model="gpt-17")),
    "model with memory": ("POST", CHAT, chat(model="gpt-17", memory={"user_id": "noor"})),
    "handle": ("POST", CHAT, chat(memory={"handle": "mh_" + "0" * 32})),
    "handle of rubbish": ("POST", CHAT, chat(memory={"handle": "../../etc/passwd\n"})),
    "handle to look at": ("GET", "/v1/handles/mh_nothing", None),
    "memory": ("GET", "/v1/memories/nothing", None),
    "memory to delete": ("DELETE", "/v1/memories/%0a%20", None),
    "report": ("GET", "/v1/reports/mr_nothing", None),
    "route": ("GET", "/v2/everything", None),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_is_a_404(http: httpx.Client, name: str) -> None:
    method, path, body = UNKNOWN[name]
    response = http.request(method, path, json=body)
    assert response.status_code == 404, response.text[:300]
    error_of(response)


@pytest.mark.parametrize(
    "path",
    [
        "/inferscale/status",
        "/inferscale/items/query",
        "/v1/../inferscale/status",
        "/v1/..%2finferscale/status",
        "/v1/%2e%2e/inferscale/status",
        "/v1//inferscale/status",
        "/v1/inferscale/status",
        "/v1/..%5cinferscale/status",
        "//inferscale/status",
        "/tokenize",
        "/v1/%2e%2e/tokenize",
        "/reset_prefix_cache",
    ],
)
def test_the_engines_own_side_cannot_be_reached(http: httpx.Client, path: str) -> None:
    url = httpx.URL(str(http.base_url)).copy_with(raw_path=path.encode())
    for method in ("GET", "POST"):
        request = httpx.Request(method, url, headers=http.headers, json=None)
        response = http.send(request)
        assert response.status_code in (404, 405), (method, response.text[:200])
        assert "fingerprint" not in response.text and "tokens" not in response.text


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_blank_messages_are_no_memories(http: httpx.Client, text: str) -> None:
    for messages in (text, [{"role": "user", "content": text}], []):
        response = post(http, ADD, add(messages))
        assert (response.status_code, response.json()["results"]) == (200, [])


def test_k_0_is_no_memory(http: httpx.Client, noor: str) -> None:
    recalled = post(http, RECALL, recall(user_id=noor, k=0)).json()
    assert (recalled["items"], recalled["text"]) == ([], "")
    for field in ({"handle": recalled["handle"]}, {"user_id": noor, "k": 0}):
        answer = post(http, CHAT, chat(memory=field))
        assert answer.status_code == 200, answer.text
        assert answer.json()["memory"]["mode"] == "none"


def test_the_largest_k_gives_what_there_is(http: httpx.Client, noor: str) -> None:
    assert len(post(http, RECALL, recall(user_id=noor, k=1000)).json()["items"]) == 40


def test_a_large_add_is_stored_whole(http: httpx.Client, memory: Memory) -> None:
    """Two thousand in one request, and taken back before they are built."""
    many = [{"role": "user", "content": f"Parcel {n} is on shelf {n % 7}."} for n in range(2_000)]
    response = post(http, ADD, add(many, user_id="bulk"))
    assert response.status_code == 200, response.text[:300]
    assert len({item["id"] for item in response.json()["results"]}) == 2_000
    assert memory.get_all(user_id="bulk", limit=1).total == 2_000
    assert memory.delete_all(user_id="bulk").deleted == 2_000


def test_the_longest_memory_is_served(http: httpx.Client, memory: Memory, user: str) -> None:
    """65,536 bytes are more than the context has: kept, searchable, never a crash of the engine."""
    text = ("A long tale of boats. " * 3_000)[:65_536].strip()
    assert post(http, ADD, add(text, user_id=user)).status_code == 200
    response = post(http, CHAT, chat(memory={"user_id": user}))
    assert response.status_code == 400, "it does not fit into the context, and is told so"
    assert "context" in error_of(response)["message"] or "length" in error_of(response)["message"]
    assert memory.search("boats", user_id=user).results[0].memory == text
    memory.delete_all(user_id=user)
