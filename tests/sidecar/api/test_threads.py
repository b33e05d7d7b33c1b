"""Threads over HTTP."""

from typing import Any

import pytest


async def _create(client: Any, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/v1/threads", json={"id": "t1", "user_id": "alice"} | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_the_life_of_a_thread(client: Any) -> None:
    thread = await _create(client, metadata={"a": 1})
    assert (await client.get("/v1/threads/t1")).json() == thread
    assert (await _create(client))["created_at"] == thread["created_at"]
    messages = [
        {"role": "user", "content": "I like tea", "timestamp": "2026-01-01T10:00:00+02:00"},
        {"role": "assistant", "content": "Fine"},
    ]
    path = "/v1/threads/t1/messages"
    added = (await client.post(path, json={"messages": messages, "infer": False})).json()
    assert [m["content"] for m in added["messages"]] == ["I like tea", "Fine"]
    assert added["messages"][0]["timestamp"] == "2026-01-01T08:00:00Z"
    assert [r["memory"] for r in added["results"]] == ["I like tea", "Fine"]
    page = (await client.get(f"{path}?limit=1&order=desc")).json()
    assert (page["results"], page["total"]) == ([added["messages"][1]], 2)
    rest = (await client.get(f"{path}?order=desc&cursor={page['next_cursor']}")).json()
    assert rest["results"] == [added["messages"][0]]
    context = (await client.post("/v1/threads/t1/context", json={"messages": 1})).json()
    assert context["thread_id"] == "t1" and context["messages"] == [added["messages"][1]]
    assert "I like tea" in context["text"] and context["run_id"] == "t1"
    handle = (await client.get(f"/v1/handles/{context['handle']}")).json()
    assert handle["text"] == context["text"]
    listed = (await client.get("/v1/threads?user_id=alice")).json()
    assert [t["id"] for t in listed["results"]] == ["t1"]
    gone = (await client.delete(f"{path}/{added['messages'][0]['id']}")).json()
    assert (gone["messages"], gone["deleted"]) == (1, 0)
    receipt = (await client.delete("/v1/threads/t1")).json()
    assert (receipt["threads"], receipt["messages"], receipt["deleted"]) == (1, 1, 2)
    assert (await client.get("/v1/threads/t1")).status_code == 404


async def test_what_is_remembered_in_an_apps_thread_is_that_apps(client: Any) -> None:
    thread = await _create(client, app_id="mail")
    assert thread["app_id"] == "mail"
    taken = await client.post("/v1/threads", json={"id": "t1", "user_id": "alice"})
    assert taken.status_code == 409
    path = "/v1/threads/t1/messages"
    await client.post(path, json={"messages": "I like tea", "infer": False})
    (found,) = (await client.get("/v1/memories?app_id=mail")).json()["results"]
    assert (found["user_id"], found["run_id"], found["app_id"]) == ("alice", "t1", "mail")
    assert (await client.get("/v1/threads?app_id=mail")).json()["total"] == 1
    assert (await client.get("/v1/threads?app_id=shop")).json()["total"] == 0
    context = (await client.post("/v1/threads/t1/context", json={})).json()
    assert (context["app_id"], context["user_id"]) == ("mail", "alice")
    handle = (await client.get(f"/v1/handles/{context['handle']}")).json()
    assert handle["app_id"] == "mail"
    receipt = (await client.delete("/v1/memories?app_id=mail")).json()
    assert (receipt["deleted"], receipt["threads"], receipt["messages"]) == (1, 1, 1)


async def test_a_context_has_the_summary_of_what_came_before(client: Any, world: Any) -> None:
    await _create(client)
    path = "/v1/threads/t1"
    await client.post(f"{path}/messages", json={"messages": "I like tea"})
    assert (await client.post(f"{path}/context", json={})).json()["summary"] is None
    await client.post(f"{path}/messages", json={"messages": "and rum"})
    tenant, store = world.tenant.id, world.store
    await store.ask_for_summary(tenant, "t1", keep=1)
    summary = (await client.post(f"{path}/context", json={})).json()["summary"]
    assert (summary["state"], summary["text"], summary["messages"]) == ("pending", None, 0)
    work = await store.summary_work(tenant, "t1", keep=1, limit=9, max_chars=99)
    await store.put_summary(tenant, "t1", work, "Likes tea.", keep=1)
    context = (await client.post(f"{path}/context", json={})).json()
    summary = context["summary"]
    assert (summary["state"], summary["text"], summary["messages"]) == ("done", "Likes tea.", 1)
    assert "Likes tea." not in context["text"]
    await store.fail_summary(tenant, "t1", "the model is away")
    summary = (await client.post(f"{path}/context", json={})).json()["summary"]
    assert (summary["state"], summary["error"]) == ("failed", "the model is away")
    assert summary["text"] == "Likes tea."


async def test_a_repeated_addition_is_one(client: Any) -> None:
    await _create(client)
    body = {"messages": "tea", "infer": False}
    headers = {"Idempotency-Key": "k"}
    path = "/v1/threads/t1/messages"
    first = (await client.post(path, json=body, headers=headers)).json()
    assert (await client.post(path, json=body, headers=headers)).json() == first
    other = await client.post(path, json={"messages": "rum"}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")
    # The same name for another kind of request is another name.
    memory = await client.post(
        "/v1/memories", json={"messages": "rum", "user_id": "alice"}, headers=headers
    )
    assert memory.status_code == 200


async def test_deleting_a_user_counts_threads(client: Any) -> None:
    await _create(client)
    await client.post("/v1/threads/t1/messages", json={"messages": "tea", "infer": False})
    receipt = (await client.delete("/v1/memories?user_id=alice")).json()
    assert (receipt["deleted"], receipt["threads"], receipt["messages"]) == (1, 1, 1)


async def test_a_thread_keeps_its_memories_if_asked(client: Any) -> None:
    await _create(client)
    await client.post("/v1/threads/t1/messages", json={"messages": "tea", "infer": False})
    receipt = (await client.delete("/v1/threads/t1?keep_memories=true")).json()
    assert (receipt["threads"], receipt["deleted"]) == (1, 0)
    assert (await client.get("/v1/memories?user_id=alice")).json()["total"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/threads", {"id": "a/b", "user_id": "alice"}, 400, "id"),
        ("/v1/threads", {"id": "..", "user_id": "alice"}, 400, "id"),
        ("/v1/threads", {"id": "t2"}, 400, "user_id"),
        ("/v1/threads", {"user_id": "*"}, 400, "user_id"),
        ("/v1/threads", {"id": "t1", "user_id": "bob"}, 409, "id"),
        ("/v1/threads/t1/messages", {"messages": "a\x00b"}, 400, "messages[0]"),
        ("/v1/threads/t1/messages", {"messages": "x", "infer": True}, 501, "infer"),
        ("/v1/threads/t9/messages", {"messages": "x"}, 404, None),
        ("/v1/threads/t1/context", {"k": -1}, 400, "k"),
        ("/v1/threads/t1/context", {"filters": {"a": {"bad": 1}}}, 400, "filters"),
        ("/v1/threads/t9/context", {}, 404, None),
    ],
)
async def test_refusals(client: Any, path: str, body: Any, status: int, param: Any) -> None:
    await _create(client)
    await client.post("/v1/threads/t1/messages", json={"messages": "hello"})
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
