"""Pinned blocks over HTTP."""

from typing import Any

import pytest

BODY = {"label": "human", "value": "Name: Al", "user_id": "alice"}


async def _create(client: Any, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/v1/blocks", json=BODY | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_the_life_of_a_block(client: Any) -> None:
    block = await _create(client, description="who", metadata={"a": 1})
    assert block["scopes"] == [
        {"user_id": "alice", "agent_id": None, "run_id": None, "app_id": None}
    ]
    assert (block["version"], block["limit"], block["read_only"]) == (1, 5000, False)
    path = f"/v1/blocks/{block['id']}"
    assert (await client.get(path)).json() == block
    changed = (await client.patch(path, json={"value": "Al", "description": None})).json()
    assert (changed["value"], changed["description"], changed["version"]) == ("Al", None, 2)
    changed = (await client.post(f"{path}/append", json={"text": "tea"})).json()
    changed = (await client.post(f"{path}/replace", json={"old": "tea", "new": "rum"})).json()
    assert (changed["value"], changed["version"]) == ("Al\nrum", 4)
    attached = (await client.post(f"{path}/attach", json={"agent_id": "x"})).json()
    assert len(attached["scopes"]) == 2
    listed = (await client.get("/v1/blocks?agent_id=x&label=human")).json()
    assert (listed["results"], listed["total"]) == ([attached], 1)
    await client.post(f"{path}/detach", json={"agent_id": "x"})
    history = (await client.get(f"{path}/history")).json()["results"]
    assert [e["event"] for e in history] == ["ADD", "UPDATE", "UPDATE", "UPDATE"]
    receipt = (await client.delete(path)).json()
    assert (receipt["deleted"], receipt["blocks"]) == (0, 1)
    assert (await client.get(path)).status_code == 404
    history = (await client.get(f"{path}/history")).json()["results"]
    assert history[-1]["event"] == "DELETE" and {e["value"] for e in history} == {None}


async def test_what_a_request_shows_is_listed_in_that_order(client: Any) -> None:
    human = await _create(client)
    persona = await _create(client, label="persona", user_id=None, agent_id="a")
    await _create(client, user_id="bob")
    answer = await client.get("/v1/blocks?user_id=alice&agent_id=a&shown=true")
    assert [b["id"] for b in answer.json()["results"]] == [persona["id"], human["id"]]
    answer = await client.get("/v1/blocks?user_id=alice&agent_id=a&shown=true&label=human")
    assert [b["id"] for b in answer.json()["results"]] == [human["id"]]
    assert (await client.get("/v1/blocks?shown=true")).status_code == 400
    everything = (await client.get("/v1/blocks?limit=2")).json()
    assert everything["total"] == 3 and len(everything["results"]) == 2
    rest = (await client.get(f"/v1/blocks?limit=2&cursor={everything['next_cursor']}")).json()
    assert len(rest["results"]) == 1 and rest["next_cursor"] is None


async def test_a_handle_shows_its_blocks(client: Any) -> None:
    block = await _create(client)
    handle = (await client.post("/v1/recall", json={"query": "x", "user_id": "alice"})).json()
    assert handle["blocks"] == [
        {"id": block["id"], "version": 1, "label": "human", "value": "Name: Al"}
    ]
    assert "Name: Al" in handle["text"]
    assert (await client.get(f"/v1/handles/{handle['handle']}")).json() == handle
    tight = {"query": "x", "user_id": "alice", "max_tokens": 1}
    answer = await client.post("/v1/recall", json=tight)
    assert (answer.status_code, answer.json()["error"]["param"]) == (413, "max_tokens")


async def test_a_receipt_counts_blocks(client: Any) -> None:
    await _create(client)
    shared = await _create(client, label="shared")
    await client.post(f"/v1/blocks/{shared['id']}/attach", json={"user_id": "bob"})
    receipt = (await client.delete("/v1/memories?user_id=alice")).json()
    assert (receipt["deleted"], receipt["blocks"], receipt["detached_blocks"]) == (0, 1, 1)


async def test_refusals_say_what_and_what_to_do(client: Any) -> None:
    block = await _create(client, limit=10)
    locked = await _create(client, label="locked", read_only=True)
    path = f"/v1/blocks/{block['id']}"
    for answer, status, code in (
        (await client.post("/v1/blocks", json=BODY), 409, "block_label_taken"),
        (await client.post(f"{path}/append", json={"text": "xx"}), 413, "block_limit_exceeded"),
        (
            await client.post(f"{path}/append", json={"text": "x", "if_version": 7}),
            *(409, "block_version_conflict"),
        ),
        (
            await client.post(f"{path}/replace", json={"old": "nope", "new": ""}),
            *(400, "block_text_not_found"),
        ),
        (
            await client.post(f"/v1/blocks/{locked['id']}/append", json={"text": "x"}),
            *(403, "block_read_only"),
        ),
        (await client.patch(path, json={}), 400, "invalid_request"),
        (await client.patch(path, json={"label": None}), 400, "invalid_request"),
        (await client.post(f"{path}/attach", json={}), 400, "invalid_request"),
        (await client.get("/v1/blocks/block-none"), 404, "not_found"),
    ):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code), error
        assert "Name: Al" not in answer.text


@pytest.mark.parametrize(
    "fields",
    [
        {"label": ""},
        {"label": "two words"},
        {"label": "x" * 65},
        {"label": "a]b"},
        {"value": "a\x00b"},
        {"value": "x" * 100_001, "limit": 100_000},
        {"limit": 0},
        {"limit": 100_001},
        {"description": "x" * 1001},
        {"user_id": "*"},
        {"tenant_id": "other"},
    ],
)
async def test_bad_fields_are_named(client: Any, fields: dict[str, Any]) -> None:
    answer = await client.post("/v1/blocks", json=BODY | fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == next(iter(fields))
