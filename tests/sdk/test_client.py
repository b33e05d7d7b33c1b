"""Every method of both clients: the request it makes, and what it gives back."""

import inspect
import json
from datetime import UTC, datetime

import httpx
import pytest

import inferscale
from inferscale import (
    SCOPE_IDS,
    AsyncBlocks,
    AsyncMemory,
    AsyncThreads,
    Blocks,
    InvalidArgumentError,
    Memory,
    NotFoundError,
    Threads,
)


async def test_add_sends_what_was_said_and_a_key(sidecar, memory):
    added = {"id": "m1", "memory": "I live in Oslo", "event": "ADD", "role": "user"}
    sidecar.reply({"results": [added]})
    result = await memory.add(
        [{"role": "user", "content": "I live in Oslo"}, "and I like it"],
        user_id="alice",
        metadata={"a": None},
        infer=False,
    )
    assert (sidecar.last.method, sidecar.last.url.path) == ("POST", "/v1/memories")
    assert sidecar.body == {
        "user_id": "alice",
        "messages": [
            {"role": "user", "content": "I live in Oslo"},
            {"role": "user", "content": "and I like it"},
        ],
        "metadata": {"a": None},
        "infer": False,
    }
    assert sidecar.last.headers["authorization"] == "Bearer key-1"
    assert sidecar.last.headers["idempotency-key"]
    assert result["results"][0]["memory"] == result.results[0].memory == "I live in Oslo"


async def test_add_takes_a_text_one_message_and_a_model_as_message(sidecar, memory):
    sidecar.reply({"results": []})
    await memory.add("hello", user_id="a")
    assert sidecar.body == {"user_id": "a", "messages": "hello"}
    await memory.add({"role": "user", "content": "x", "name": "Al"}, run_id="r")
    assert sidecar.body["messages"] == [{"role": "user", "content": "x", "name": "Al"}]
    await memory.add(inferscale.ChatMessage(role="assistant", content="y"), agent_id="b")
    assert sidecar.body["messages"] == [{"role": "assistant", "content": "y"}]


async def test_each_add_has_its_own_key_unless_given(sidecar, memory):
    sidecar.reply({"results": []})
    await memory.add("x", user_id="a")
    await memory.add("x", user_id="a")
    await memory.add("x", user_id="a", idempotency_key="turn-7")
    keys = [request.headers["idempotency-key"] for request in sidecar.requests]
    assert len(set(keys)) == 3 and keys[2] == "turn-7"


async def test_get(sidecar, memory, record):
    sidecar.reply(record)
    found = await memory.get("m/1?x")
    assert sidecar.last.url.raw_path == b"/v1/memories/m%2F1%3Fx"
    assert found.created_at.year == 2026 and found["created_at"] == "2026-11-30T12:00:00+00:00"


async def test_get_of_an_unknown_id_is_none_but_a_wrong_address_is_an_error(sidecar, memory):
    sidecar.refuse(404, code="not_found")
    assert await memory.get("nope") is None
    assert await memory.history("nope") == []
    sidecar.replies = [httpx.Response(404, text="404 page not found")]
    with pytest.raises(NotFoundError, match="page not found"):
        await memory.get("nope")
    sidecar.replies.clear()
    sidecar.refuse(404, "Not Found: GET /v1/memories", code="route_not_found")
    with pytest.raises(NotFoundError, match="Not Found"):
        await memory.get("nope")


@pytest.mark.parametrize("method", ["get", "delete", "history", "update", "get_handle", "report"])
@pytest.mark.parametrize("memory_id", ["", " ", ".", "..", None, 5, "\ud800"])
async def test_what_is_no_id_never_becomes_another_address(sidecar, memory, method, memory_id):
    arguments = [memory_id, "text"] if method == "update" else [memory_id]
    with pytest.raises(InvalidArgumentError):
        await getattr(memory, method)(*arguments)
    assert not sidecar.requests


async def test_search_in_both_dialects(sidecar, memory, record):
    sidecar.reply({"results": [{**record, "score": 0.9}]})
    result = await memory.search("where?", user_id="alice", limit=3)
    assert sidecar.last.url.path == "/v1/memories/search"
    first = sidecar.body
    assert first == {"query": "where?", "user_id": "alice", "limit": 3}
    await memory.search("where?", filters={"user_id": "alice"}, top_k=3, rerank=False)
    assert sidecar.body == first
    assert result["results"][0]["score"] == 0.9


async def test_search_sends_filters_and_threshold(sidecar, memory):
    sidecar.reply({"results": []})
    conditions = {"AND": [{"topic": "home"}, {"year": {"gte": 2020}}]}
    await memory.search("q", agent_id="a", filters=conditions, threshold=0.0)
    assert sidecar.body == {
        "query": "q",
        "agent_id": "a",
        "filters": conditions,
        "threshold": 0.0,
    }


async def test_get_all_follows_every_page(sidecar, memory, record):
    sidecar.reply({"results": [{**record, "id": "m2"}], "total": 2, "next_cursor": "c1"})
    sidecar.reply({"results": [record], "total": 2, "next_cursor": None})
    result = await memory.get_all(user_id="alice")
    assert [row["id"] for row in result["results"]] == ["m2", "m1"]
    assert (result.total, result.next_cursor) == (2, None)
    assert dict(sidecar.requests[0].url.params) == {"user_id": "alice", "limit": "200"}
    assert sidecar.last.url.params["cursor"] == "c1"


async def test_entities_follow_every_page_or_give_one(sidecar, memory):
    mail = {"type": "app", "id": "mail", "memories": 2}
    mail |= dict.fromkeys(("created_at", "updated_at"), "2026-01-01T00:00:00+00:00")
    sidecar.reply({"results": [mail], "total": 2, "next_cursor": "c1"})
    sidecar.reply({"results": [{**mail, "id": "shop"}], "total": 2, "next_cursor": None})
    found = await memory.entities("app")
    assert [(each.type, each["id"], each.memories) for each in found.results] == [
        *(("app", "mail", 2), ("app", "shop", 2)),
    ]
    assert dict(sidecar.last.url.params) == {"type": "app", "limit": "200", "cursor": "c1"}
    assert (await memory.entities(limit=1)).total == 2
    assert dict(sidecar.last.url.params) == {"limit": "1"}


async def test_get_all_gives_one_page_if_asked_for_one(sidecar, memory, record):
    sidecar.reply({"results": [record], "total": 9, "next_cursor": "c2"})
    result = await memory.get_all(filters={"user_id": "alice"}, top_k=1, cursor="c1")
    assert result.next_cursor == "c2" and len(sidecar.requests) == 1
    assert dict(sidecar.last.url.params) == {"user_id": "alice", "limit": "1", "cursor": "c1"}


async def test_get_all_does_not_loop_on_a_cursor_that_leads_to_itself(sidecar, memory, record):
    sidecar.reply({"results": [record], "total": 2, "next_cursor": "c1"})
    with pytest.raises(inferscale.APIResponseError, match="c1"):
        await memory.get_all(user_id="alice")
    assert len(sidecar.requests) == 2


async def test_update(sidecar, memory, record):
    sidecar.reply(record)
    result = await memory.update("m1", "Alice lives in Oslo")
    assert (sidecar.last.method, sidecar.body) == ("PATCH", {"text": "Alice lives in Oslo"})
    assert result["message"] == "Memory updated successfully!" and result.version == 1
    await memory.update("m1", data="new", metadata={})
    assert sidecar.body == {"text": "new", "metadata": {}}
    for arguments in ({}, {"text": "a", "data": "b"}, {"text": " "}):
        with pytest.raises(InvalidArgumentError):
            await memory.update("m1", **arguments)


async def test_delete_and_delete_all(sidecar, memory):
    sidecar.reply({"deleted": 1, "kv_items": 4})
    result = await memory.delete("m1")
    assert (sidecar.last.method, sidecar.last.url.path) == ("DELETE", "/v1/memories/m1")
    assert (result.deleted, result["message"]) == (1, "Memory deleted successfully!")
    result = await memory.delete_all("alice", run_id="r")
    assert sidecar.last.url.path == "/v1/memories"
    assert dict(sidecar.last.url.params) == {"user_id": "alice", "run_id": "r"}
    assert result["message"] == "Memories deleted successfully!"


@pytest.mark.parametrize("method", ["delete", "update"])
async def test_changing_what_does_not_exist_is_an_error(sidecar, memory, method):
    sidecar.refuse(404, "no memory 'x'", code="not_found", x_inferscale_request_id="r9")
    with pytest.raises(NotFoundError) as caught:
        await getattr(memory, method)(*(["x", "text"] if method == "update" else ["x"]))
    error = caught.value
    assert (error.status_code, error.code, error.request_id) == (404, "not_found", "r9")
    assert "no memory 'x'" in str(error) and error.remedy in str(error)


async def test_history(sidecar, memory, record):
    row = {"memory_id": "m1", "version": 2, "event": "DELETE", "old_memory": "x"}
    sidecar.reply({"results": [{**row, "created_at": record["created_at"]}]})
    (entry,) = await memory.history("m1")
    assert entry["event"] == "DELETE" and entry["is_deleted"] is True
    assert sidecar.last.url.path == "/v1/memories/m1/history"


async def test_recall_gives_a_handle(sidecar, memory, handle_body):
    sidecar.reply(handle_body)
    handle = await memory.recall("where?", user_id="alice", k=5, ttl_s=60)
    assert sidecar.last.url.path == "/v1/recall"
    assert sidecar.body == {"query": "where?", "user_id": "alice", "k": 5, "ttl_s": 60}
    assert str(handle) == handle_body["text"]
    assert await memory.get_handle(handle.id) == handle
    assert sidecar.last.url.path == f"/v1/handles/{handle.id}"


async def test_builds_and_report(sidecar, memory):
    sidecar.reply({"queued": 0, "building": 0, "ready": 3, "failed": 1})
    assert (await memory.builds()).is_done
    sidecar.replies.clear()
    sidecar.reply({"request_id": "r1", "mode": "text", "reason": "disabled", "new_field": 1})
    assert (await memory.report("r1")).reason == "disabled"
    assert sidecar.last.url.path == "/v1/reports/r1"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"user_id": "*"},
        {"user_id": ""},
        {"user_id": "a b"},
        {"user_id": True},
        {"user_id": ["a"]},
        {"user_id": "a", "filters": {"user_id": "b"}},
        {"filters": {"user_id": None}},
        {"filters": {"user_id": {"in": ["a"]}}},
        {"filters": {"AND": [{"user_id": "a"}]}},
        {"user_id": "a", "filters": {"NOT": [{"run_id": "b"}]}},
        {"user_id": "a", "limit": 2, "top_k": 3},
        {"user_id": "a", "limit": -1},
        {"user_id": "a", "threshold": 2},
        {"user_id": "a", "reference_date": "2026-01-01"},
        {"user_id": "a", "filters": {"x": float("nan")}},
        {"user_id": "a", "filters": {"x": object()}},
    ],
)
async def test_a_search_that_cannot_be_honoured_is_not_sent(sidecar, memory, arguments):
    with pytest.raises(ValueError) as caught:
        await memory.search("q", **arguments)
    assert isinstance(caught.value, InvalidArgumentError) and not sidecar.requests


@pytest.mark.parametrize("text", ["", " \n", "a\x00b", "\ud800", "x" * 70_000])
async def test_bad_text_is_refused_without_being_repeated(sidecar, memory, text):
    for call in (memory.search, memory.recall):
        with pytest.raises(InvalidArgumentError) as caught:
            await call(text, user_id="a")
        assert len(str(caught.value)) < 300
    assert not sidecar.requests


async def test_delete_all_needs_an_id_and_knows_no_wildcard(sidecar, memory):
    with pytest.raises(InvalidArgumentError):
        await memory.delete_all()
    for wildcard in ("*", "", " "):
        with pytest.raises(InvalidArgumentError):
            await memory.delete_all(user_id=wildcard)
        with pytest.raises(InvalidArgumentError):
            await memory.get_all(user_id="alice", run_id=wildcard)
    assert not sidecar.requests


async def test_an_unknown_argument_is_a_type_error(memory):
    with pytest.raises(TypeError, match="serach"):
        await memory.search("q", user_id="a", serach=1)


async def test_get_all_sends_filters_in_a_body_and_follows_its_pages(sidecar, memory, record):
    sidecar.reply({"results": [{**record, "id": "m2"}], "total": 2, "next_cursor": "c1"})
    sidecar.reply({"results": [record], "total": 2, "next_cursor": None})
    result = await memory.get_all(filters={"user_id": "alice", "topic": "x"}, show_expired=True)
    assert [row.id for row in result.results] == ["m2", "m1"]
    assert sidecar.last.url.path == "/v1/memories/list"
    assert sidecar.body == {
        "user_id": "alice",
        "filters": {"topic": "x"},
        "show_expired": True,
        "limit": 200,
        "cursor": "c1",
    }


async def test_chat_sends_memory_as_one_field(sidecar, memory, completion, handle_body):
    sidecar.reply(completion, x_inferscale_request_id="r1")
    answer = await memory.chat("Where?", user_id="alice", k=5, temperature=0, model=None)
    assert sidecar.last.url.path == "/v1/chat/completions"
    assert sidecar.body == {
        "messages": [{"role": "user", "content": "Where?"}],
        "temperature": 0,
        "stream": False,
        "memory": {"user_id": "alice", "k": 5},
    }
    assert answer.text == answer.choices[0].message.content == "In Oslo."
    assert answer.choices[0].message.reasoning == "hm"
    assert answer.request_id == "r1"
    assert answer.memory.mode == "injected" and answer.memory.tokens.injected == 5
    await memory.chat("And now?", memory=handle_body["handle"])
    assert sidecar.body["memory"] == {"handle": handle_body["handle"]}
    await memory.chat([answer.choices[0].message, "And now?"])
    assert "memory" not in sidecar.body
    assert sidecar.body["messages"][0]["content"] == "In Oslo."


@pytest.mark.parametrize(
    "arguments",
    [
        {"memory": "mh_1", "user_id": "a"},
        {"memory": "mh_1", "k": 3},
        {"k": 3},
        {"memory": "alice"},
        {"memory": {}},
        {"memory": {"handle": "mh_1", "user_id": "a"}},
        {"memory": {"user_id": "a", "limit": 3}},
        {"memory": 3},
    ],
)
async def test_a_chat_with_unclear_memory_is_not_sent(sidecar, memory, arguments):
    with pytest.raises(InvalidArgumentError):
        await memory.chat("hi", **arguments)
    assert not sidecar.requests


async def test_an_answer_of_another_shape_says_so(sidecar, memory):
    for reply in (
        httpx.Response(200, text="<html>hello</html>"),
        httpx.Response(200, json={"results": 3}),
        httpx.Response(200, json=[]),
        httpx.Response(307, headers={"location": "https://elsewhere.test"}),
    ):
        sidecar.replies = [reply]
        with pytest.raises(inferscale.APIResponseError):
            await memory.search("q", user_id="a")


async def test_works_as_context_manager(sidecar):
    for _ in range(2):
        sidecar.reply({"queued": 0, "building": 0, "ready": 0, "failed": 0})
    transport = httpx.MockTransport(sidecar)
    with inferscale.Memory(http_client=httpx.Client(transport=transport)) as client:
        client.builds()
    async with inferscale.AsyncMemory(
        http_client=httpx.AsyncClient(transport=transport)
    ) as awaiting:
        await awaiting.builds()
    assert len(sidecar.requests) == 2


def test_json_of_a_result(record):
    hit = inferscale.SearchHit(**record, score=0.5)
    assert json.loads(json.dumps(dict(hit)))["created_at"] == record["created_at"]


async def test_extraction_is_asked_for_and_reported(sidecar, memory):
    error = "the model is down"
    job = {
        "id": "e1",
        "state": "failed",
        "error": {"code": "extraction_unavailable", "message": error},
        "turns": ["m1"],
        "created_at": "2026-11-30T12:00:00+00:00",
        "updated_at": "2026-11-30T12:00:00+00:00",
    }
    raw = {"id": "m1", "memory": "I like tea", "event": "ADD", "status": "raw", "error": error}
    sidecar.reply({"results": [raw], "extraction": job})
    added = await memory.add("I like tea", user_id="a", infer=True, async_mode=True)
    assert sidecar.body["infer"] is sidecar.body["async_mode"] is True
    assert (added.results[0].status, added.results[0]["error"]) == ("raw", error)
    assert added.extraction.error.code == "extraction_unavailable"
    assert (await memory.extraction("e1")).extraction.state == "failed"
    assert sidecar.last.url.path == "/v1/extractions/e1"


async def test_how_to_rank_is_sent(sidecar, memory, record, handle_body):
    details = {"similarity": 0.4, "keyword": 0.5, "recency": None}
    sidecar.reply({"results": [{**record, "score": 0.7, "details": details}]})
    found = await memory.search("q", user_id="a", mode="keyword", diversity=0.5, explain=True)
    assert sidecar.body == {
        "user_id": "a",
        "query": "q",
        "mode": "keyword",
        "diversity": 0.5,
        "explain": True,
    }
    assert found.results[0].details.keyword == 0.5
    sidecar.replies = []
    sidecar.reply(handle_body)
    await memory.recall("q", user_id="a", recency_days=30)
    assert sidecar.body == {"user_id": "a", "query": "q", "recency_days": 30}


async def test_deletion_by_filter_needs_a_scope_and_shows_what_goes(sidecar, memory):
    sidecar.reply({"matched": 2, "ids": ["m1", "m2"], "dry_run": True, "deleted": 0})
    shown = await memory.delete_where({"year": 2001}, user_id="a", dry_run=True)
    assert sidecar.last.url.path == "/v1/memories/delete"
    assert sidecar.body == {"user_id": "a", "filters": {"year": 2001}, "dry_run": True}
    assert (shown.matched, shown["ids"], shown.deleted) == (2, ["m1", "m2"], 0)
    with pytest.raises(InvalidArgumentError):
        await memory.delete_where({"year": 2001})
    assert len(sidecar.requests) == 1


async def test_the_moment_goes_along_with_every_reading(sidecar, memory, record, handle_body):
    then = datetime(2026, 5, 4, 12, tzinfo=UTC)
    sidecar.reply(record)
    await memory.get("m1", as_of=then)
    assert dict(sidecar.last.url.params) == {"as_of": "2026-05-04T12:00:00+00:00"}
    sidecar.replies = []
    sidecar.reply({"results": [], "total": 0, "next_cursor": None})
    await memory.get_all(user_id="a", as_of="2026-05-04T12:00:00+00:00")
    assert sidecar.last.url.params["as_of"] == "2026-05-04T12:00:00+00:00"
    await memory.search("q", user_id="a", as_of=then)
    assert sidecar.body["as_of"] == "2026-05-04T12:00:00+00:00"
    sidecar.replies = []
    sidecar.reply(handle_body)
    await memory.recall("q", user_id="a", as_of=then)
    assert sidecar.body["as_of"] == "2026-05-04T12:00:00+00:00"
    for wrong in ("yesterday", datetime(2026, 5, 4)):
        with pytest.raises(InvalidArgumentError):
            await memory.search("q", user_id="a", as_of=wrong)


@pytest.mark.parametrize(
    "kind",
    [Memory, AsyncMemory, Blocks, AsyncBlocks, Threads, AsyncThreads],
)
def test_what_takes_one_id_of_a_scope_takes_all(kind):
    taking = 0
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        taken = set(inspect.signature(method).parameters) & set(SCOPE_IDS)
        if "agent_id" in taken:
            taking += 1
            own = {"run_id"} if kind in (Threads, AsyncThreads) else set()  # a thread is a run
            assert taken | own == set(SCOPE_IDS), name
    assert taking


async def test_an_app_is_named_on_the_wire(sidecar, memory, record, handle_body):
    mail = {"user_id": "alice", "app_id": "mail"}
    for body in ({"results": []}, {"results": []}, {"deleted": 0}):
        sidecar.reply(body)
    sidecar.reply({**handle_body, "app_id": "mail"})
    await memory.add("x", **mail)
    assert {**sidecar.body, **mail} == sidecar.body
    await memory.search("x", filters={**mail, "OR": [{"topic": "a"}]})
    assert {**sidecar.body, **mail} == sidecar.body
    assert sidecar.body["filters"] == {"OR": [{"topic": "a"}]}
    await memory.delete_all(app_id="mail")
    assert dict(sidecar.last.url.params) == {"app_id": "mail"}
    assert (await memory.recall("x", **mail)).app_id == "mail"
    for wildcard in ("*", "", "a b"):
        with pytest.raises(InvalidArgumentError, match="app_id"):
            await memory.search("x", app_id=wildcard)
