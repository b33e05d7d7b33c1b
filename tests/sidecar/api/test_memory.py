"""`/v1/memories` and `/v1/recall` over HTTP: shapes, cursors, and bad input."""

import hashlib
import json
from typing import Any

import httpx
import pytest

from inferscale.protocol import memory as wire


async def _add(client: httpx.AsyncClient, messages: Any, **more: Any) -> Any:
    body = {"user_id": "alice", "messages": messages} | more
    answer = await client.post("/v1/memories", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


async def test_a_memorys_life(client: httpx.AsyncClient) -> None:
    (added,) = await _add(client, "she likes tea", metadata={"a": 1})
    assert added["event"] == "ADD"
    path = f"/v1/memories/{added['id']}"
    memory = wire.Memory.model_validate((await client.get(path)).json())
    assert (memory.memory, memory.user_id, memory.role) == ("she likes tea", "alice", "user")
    assert memory.hash == hashlib.md5(b"she likes tea").hexdigest()
    assert memory.created_at.utcoffset() is not None
    (again,) = await _add(client, "she likes tea")
    assert (again["event"], again["id"]) == ("NOOP", added["id"])

    changed = (await client.patch(path, json={"text": "she likes coffee"})).json()
    assert (changed["memory"], changed["version"], changed["metadata"]) == (
        "she likes coffee",
        2,
        {"a": 1},
    )
    cleared = (await client.patch(path, json={"metadata": None})).json()
    assert (cleared["metadata"], cleared["memory"]) == (None, "she likes coffee")

    history = (await client.get(f"{path}/history")).json()["results"]
    assert [(h["event"], h["old_memory"], h["new_memory"]) for h in history] == [
        ("ADD", None, "she likes tea"),
        ("UPDATE", "she likes tea", "she likes coffee"),
    ]
    receipt = {"deleted": 1, "kv_items": 0, "sources": 0, "embeddings": 1, "handle_items": 0}
    assert receipt.items() <= (await client.delete(path)).json().items()
    for method in ("GET", "DELETE"):
        assert (await client.request(method, path)).status_code == 404
    history = (await client.get(f"{path}/history")).json()["results"]
    assert [(h["event"], h["old_memory"], h["new_memory"]) for h in history] == [
        ("ADD", None, None),
        ("UPDATE", None, None),
        ("DELETE", None, None),
    ]


async def test_pages_by_cursor(client: httpx.AsyncClient) -> None:
    await _add(client, [{"role": "user", "content": f"m{i}"} for i in range(5)])
    seen, params = [], {"user_id": "alice", "limit": "2"}
    while True:
        page = (await client.get("/v1/memories", params=params)).json()
        assert page["total"] == 5
        seen += [memory["memory"] for memory in page["results"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert seen == ["m4", "m3", "m2", "m1", "m0"]


@pytest.mark.parametrize("cursor", ["x", "🎉", "djE6", "djI6NQ", "A" * 60, "djE6LTU"])
async def test_a_made_up_cursor_is_refused(client: httpx.AsyncClient, cursor: str) -> None:
    answer = await client.get("/v1/memories", params={"user_id": "a", "cursor": cursor})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "cursor"


async def test_search_and_recall(client: httpx.AsyncClient) -> None:
    await _add(client, "red apple", metadata={"n": 1})
    await _add(client, "blue sky", metadata={"n": 2})
    body = {"user_id": "alice", "query": "red apple"}
    found = (await client.post("/v1/memories/search", json=body)).json()["results"]
    assert [hit["memory"] for hit in found] == ["red apple", "blue sky"]
    assert found[0]["score"] == 1.0
    filtered = body | {"filters": {"n": {"gt": 1}}}
    found = (await client.post("/v1/memories/search", json=filtered)).json()["results"]
    assert [hit["memory"] for hit in found] == ["blue sky"]

    answer = (await client.post("/v1/recall", json=body)).json()
    handle = wire.HandleResponse.model_validate(answer)
    assert [item.memory for item in handle.items] == ["blue sky", "red apple"]
    assert handle.text == "- blue sky\n- red apple\n"
    assert (await client.get(f"/v1/handles/{handle.handle}")).json() == answer
    await client.delete("/v1/memories", params={"user_id": "alice"})
    resolved = (await client.get(f"/v1/handles/{handle.handle}")).json()
    assert (resolved["items"], resolved["text"]) == ([], "")


async def test_builds_are_counted(client: httpx.AsyncClient) -> None:
    await _add(client, "tea")
    assert (await client.get("/v1/builds")).json() == {
        "queued": 1,
        "building": 0,
        "ready": 0,
        "failed": 0,
    }


async def test_idempotency_key_is_a_header(client: httpx.AsyncClient) -> None:
    async def add(text: str) -> httpx.Response:
        return await client.post(
            "/v1/memories",
            json={"user_id": "alice", "messages": text},
            headers={"Idempotency-Key": "k"},
        )

    first = await add("tea")
    assert (await add("tea")).json() == first.json()
    refused = await add("coffee")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_key_reused")


SCOPED = {"user_id": "alice"}
BAD = {
    "no scope": ("POST", "/v1/memories", {"messages": "x"}),
    "empty id": ("POST", "/v1/memories", {"user_id": "", "messages": "x"}),
    "wildcard id": ("POST", "/v1/memories", {"user_id": "*", "messages": "x"}),
    "blank in id": ("POST", "/v1/memories", {"user_id": "a b", "messages": "x"}),
    "id is a list": ("POST", "/v1/memories", {"user_id": ["a"], "messages": "x"}),
    "surrogate in id": ("POST", "/v1/memories", {"user_id": "\ud800", "messages": "x"}),
    "long id": ("POST", "/v1/memories", {"user_id": "a" * 257, "messages": "x"}),
    "no messages": ("POST", "/v1/memories", SCOPED),
    "messages is null": ("POST", "/v1/memories", SCOPED | {"messages": None}),
    "messages of numbers": ("POST", "/v1/memories", SCOPED | {"messages": [1]}),
    "unknown field": ("POST", "/v1/memories", SCOPED | {"messages": "x", "userid": "b"}),
    "NUL": ("POST", "/v1/memories", SCOPED | {"messages": "a\x00b"}),
    "lone surrogate": ("POST", "/v1/memories", SCOPED | {"messages": "a\ud800b"}),
    "surrogate in part": (
        "POST",
        "/v1/memories",
        SCOPED | {"messages": {"content": [{"type": "text", "text": "\udfff"}]}},
    ),
    "surrogate in metadata": (
        "POST",
        "/v1/memories",
        SCOPED | {"messages": "x", "metadata": {"\ud800": 1}},
    ),
    "a megabyte": ("POST", "/v1/memories", SCOPED | {"messages": "x" * 1_000_000}),
    "blank query": ("POST", "/v1/memories/search", SCOPED | {"query": "  "}),
    "query with NUL": ("POST", "/v1/memories/search", SCOPED | {"query": "\x00"}),
    "surrogate in filter": (
        "POST",
        "/v1/memories/search",
        SCOPED | {"query": "x", "filters": {"\ud800": {"\ud801": 1}}},
    ),
    "negative limit": ("POST", "/v1/memories/search", SCOPED | {"query": "x", "limit": -1}),
    "huge limit": ("POST", "/v1/memories/search", SCOPED | {"query": "x", "limit": 10**30}),
    "negative k": ("POST", "/v1/recall", SCOPED | {"query": "x", "k": -1}),
    "huge k": ("POST", "/v1/recall", SCOPED | {"query": "x", "k": 1001}),
    "k is a word": ("POST", "/v1/recall", SCOPED | {"query": "x", "k": "many"}),
    "ttl of nothing": ("POST", "/v1/recall", SCOPED | {"query": "x", "ttl_s": 0}),
    "unknown operator": (
        "POST",
        "/v1/recall",
        SCOPED | {"query": "x", "filters": {"a": {"like": 1}}},
    ),
    "a number as id": ("POST", "/v1/memories", {"user_id": 5, "messages": "m"}),
    "empty update": ("PATCH", "/v1/memories/x", {}),
    "blank update": ("PATCH", "/v1/memories/x", {"text": " "}),
    "identity in update": ("PATCH", "/v1/memories/x", {"user_id": "bob"}),
    "list without scope": ("GET", "/v1/memories", None),
    "list with limit 0": ("GET", "/v1/memories?user_id=a&limit=0", None),
    "list with huge limit": ("GET", "/v1/memories?user_id=a&limit=99999999999", None),
    "delete without scope": ("DELETE", "/v1/memories", None),
    "delete with empty id": ("DELETE", "/v1/memories?user_id=", None),
    "delete with wildcard": ("DELETE", "/v1/memories?user_id=*", None),
    "delete with a typo": ("DELETE", "/v1/memories?user_id=alice&agentid=b", None),
    "not an object": ("POST", "/v1/memories", ["x"]),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_input_is_a_clear_400_and_changes_nothing(
    client: httpx.AsyncClient, name: str
) -> None:
    await _add(client, "already here")
    method, path, body = BAD[name]
    content = None if body is None else json.dumps(body).encode()  # ASCII: escapes stay escapes
    headers = {"content-type": "application/json"}
    answer = await client.request(method, path, content=content, headers=headers)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert 10 < len(error["message"]) < 1000
    page = (await client.get("/v1/memories", params={"user_id": "alice"})).json()
    assert page["total"] == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"user_id": "alice", "messages": "x", "metadata": {"n": NaN}}',
        b'{"user_id": "alice", "messages": "x", "metadata": {"n": 1e999}}',
        b"[" * 100_000,
        b'{"user_id": "alice", "messages": "x", "metadata": {"n": ' + b"9" * 5000 + b"}}",
    ],
)
async def test_broken_json_is_a_400(client: httpx.AsyncClient, raw: bytes) -> None:
    answer = await client.post(
        "/v1/memories", content=raw, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]


async def test_infer_without_an_llm_is_not_offered(client: httpx.AsyncClient) -> None:
    body = {"user_id": "alice", "messages": "x", "infer": True}
    answer = await client.post("/v1/memories", json=body)
    assert answer.status_code == 501
    assert "infer=False" in answer.json()["error"]["message"]
    assert (await client.get("/v1/extractions/x")).status_code == 404


async def test_text_of_every_script_comes_back_as_it_was(client: httpx.AsyncClient) -> None:
    texts = [
        "日本語",
        "ไทย",
        "🎉👩‍👩‍👧",
        "<|im_end|>\n<|im_start|>system",
        "a\u202eb",
        "\\u0000",
        "{}",
    ]
    await _add(client, [{"content": text} for text in texts])
    page = (await client.get("/v1/memories", params={"user_id": "alice"})).json()
    assert [memory["memory"] for memory in page["results"]] == texts[::-1]


async def test_a_search_explains_itself(client: httpx.AsyncClient) -> None:
    await client.post("/v1/memories", json={"user_id": "a", "messages": "green tea"})
    body = {"user_id": "a", "query": "tea", "explain": True, "diversity": 0.5, "recency_days": 7}
    (hit,) = (await client.post("/v1/memories/search", json=body)).json()["results"]
    assert set(hit["details"]) == {"similarity", "keyword", "recency"}
    plain = await client.post("/v1/memories/search", json={"user_id": "a", "query": "tea"})
    assert plain.json()["results"][0]["details"] is None
    for wrong in ({"mode": "magic"}, {"diversity": 2}, {"recency_days": 0}):
        answer = await client.post("/v1/memories/search", json=body | wrong)
        assert answer.status_code == 400
    recall = {"user_id": "a", "query": "tea", "mode": "keyword", "diversity": 1}
    assert len((await client.post("/v1/recall", json=recall)).json()["items"]) == 1


async def test_a_memorys_end_over_http(client: httpx.AsyncClient, world: Any) -> None:
    (added,) = await _add(client, "tea", ttl_s=60)
    path = f"/v1/memories/{added['id']}"
    first = (await client.get(path)).json()["expires_at"]
    assert first.startswith("2026-01-01T00:01:00")
    later = (await client.patch(path, json={"expires_at": "2026-01-01T03:00:00+02:00"})).json()
    assert later["expires_at"] == "2026-01-01T01:00:00Z"
    forever = (await client.patch(path, json={"expires_at": None})).json()
    assert (forever["expires_at"], forever["memory"]) == (None, "tea")
    await client.patch(path, json={"ttl_s": 5})
    world.clock.advance(seconds=10)
    assert (await client.get(path)).status_code == 404
    assert (await client.get(path, params={"show_expired": "true"})).status_code == 200
    for shown, number in (("true", 1), ("false", 0)):
        params = {"user_id": "alice", "show_expired": shown}
        assert (await client.get("/v1/memories", params=params)).json()["total"] == number
        body = {"user_id": "alice", "query": "tea", "show_expired": shown == "true"}
        found = (await client.post("/v1/memories/search", json=body)).json()["results"]
        assert len(found) == number
    history = (await client.get(f"{path}/history")).json()["results"]
    assert [(h["event"], h["new_memory"]) for h in history] == [("ADD", None), ("EXPIRE", None)]


@pytest.mark.parametrize(
    "end",
    [
        {"expires_at": "2026-05-01"},
        {"expires_at": "2027-05-01T00:00:00"},
        {"expires_at": "2025-12-31T23:59:59Z"},
        {"ttl_s": 0},
        {"ttl_s": -5},
        {"ttl_s": 1.5},
        {"ttl_s": 10**12},
        {"ttl_s": 5, "expires_at": "2027-01-01T00:00:00Z"},
    ],
)
async def test_an_end_that_makes_no_sense_is_refused(client: httpx.AsyncClient, end: Any) -> None:
    body = {"user_id": "alice", "messages": "tea"} | end
    answer = await client.post("/v1/memories", json=body)
    assert answer.status_code == 400, answer.text
    assert (await client.get("/v1/memories", params={"user_id": "alice"})).json()["total"] == 0


async def test_lists_with_filters_and_totals_over_http(client: httpx.AsyncClient) -> None:
    for i in range(7):
        await _add(client, f"tea {i}", metadata={"even": i % 2 == 0})
    body = {"user_id": "alice", "filters": {"even": True}, "limit": 3}
    first = (await client.post("/v1/memories/list", json=body)).json()
    assert [m["memory"] for m in first["results"]] == ["tea 6", "tea 4", "tea 2"]
    await _add(client, "tea 8", metadata={"even": True})
    body["cursor"] = first["next_cursor"]
    second = (await client.post("/v1/memories/list", json=body)).json()
    assert [m["memory"] for m in second["results"]] == ["tea 0"]
    assert (first["total"], second["total"], second["next_cursor"]) == (4, 4, None)
    params = {"user_id": "alice", "offset": "6", "limit": "5"}
    rest = (await client.get("/v1/memories", params=params)).json()
    assert [m["memory"] for m in rest["results"]] == ["tea 1", "tea 0"]
    for wrong in ({"filters": {"a": {"near": 1}}}, {"offset": 1, "cursor": first["next_cursor"]}):
        answer = await client.post("/v1/memories/list", json={"user_id": "alice"} | wrong)
        assert answer.status_code == 400, answer.text
    assert (await client.post("/v1/memories/list", json={})).status_code == 400


async def test_the_past_over_http(client: httpx.AsyncClient, world: Any) -> None:
    (added,) = await _add(client, "green tea")
    path, then = f"/v1/memories/{added['id']}", world.clock.now.isoformat()
    world.clock.advance(hours=1)
    await client.patch(path, json={"text": "black tea"})
    assert (await client.get(path, params={"as_of": then})).json()["memory"] == "green tea"
    scope = {"user_id": "alice", "as_of": then}
    for answer in (
        await client.get("/v1/memories", params=scope),
        await client.post("/v1/memories/list", json=scope | {"filters": {"role": "user"}}),
        await client.post("/v1/memories/search", json=scope | {"query": "tea"}),
    ):
        assert [memory["memory"] for memory in answer.json()["results"]] == ["green tea"]
    made = (await client.post("/v1/recall", json=scope | {"query": "tea"})).json()
    assert ([i["memory"] for i in made["items"]], made["as_of"][:13]) == (
        ["green tea"],
        "2026-01-01T00",
    )
    again = (await client.get(f"/v1/handles/{made['handle']}")).json()
    assert (again["text"], again["as_of"]) == (made["text"], made["as_of"])
    for wrong in ({"as_of": "2026-01-01T00:00:00"}, {"show_expired": "true"}):
        answer = await client.get("/v1/memories", params=scope | wrong)
        assert answer.status_code == 400, answer.text


async def test_rerank_without_a_model_is_not_offered(client: httpx.AsyncClient) -> None:
    body = {"user_id": "alice", "query": "tea", "rerank": True}
    for path in ("/v1/memories/search", "/v1/recall"):
        answer = await client.post(path, json=body)
        assert answer.status_code == 501, answer.text
        assert answer.json()["error"]["param"] == "rerank"
