"""Deleting by filter: what would go, what went, and what did not."""

from typing import Any

import httpx
import pytest


async def _add(client: httpx.AsyncClient, user: str, text: str, **metadata: Any) -> str:
    body = {"user_id": user, "messages": text, "metadata": metadata, "infer": False}
    answer = await client.post("/v1/memories", json=body)
    return str(answer.json()["results"][0]["id"])


async def _delete(client: httpx.AsyncClient, **body: Any) -> Any:
    answer = await client.post("/v1/memories/delete", json={"user_id": "alice"} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _texts(client: httpx.AsyncClient, user: str) -> list[str]:
    listed = (await client.get("/v1/memories", params={"user_id": user})).json()
    return sorted(each["memory"] for each in listed["results"])


async def test_a_dry_run_shows_what_would_go_and_removes_nothing(client: httpx.AsyncClient) -> None:
    old = await _add(client, "alice", "old tea", year=2001)
    await _add(client, "alice", "new tea", year=2025)
    shown = await _delete(client, filters={"year": {"lt": 2010}}, dry_run=True)
    assert (shown["matched"], shown["ids"], shown["deleted"]) == (1, [old], 0)
    assert await _texts(client, "alice") == ["new tea", "old tea"]


async def test_what_passes_goes_with_a_receipt_and_nothing_else(client: httpx.AsyncClient) -> None:
    for user in ("alice", "bob"):
        await _add(client, user, "old tea", year=2001)
        await _add(client, user, "new tea", year=2025)
    recalled = await client.post("/v1/recall", json={"user_id": "alice", "query": "tea"})
    gone = await _delete(client, filters={"year": {"lt": 2010}})
    assert (gone["matched"], gone["deleted"], gone["embeddings"], gone["handle_items"]) == (1,) * 4
    assert await _texts(client, "alice") == ["new tea"]
    assert await _texts(client, "bob") == ["new tea", "old tea"]
    handle = (await client.get(f"/v1/handles/{recalled.json()['handle']}")).json()
    assert [item["memory"] for item in handle["items"]] == ["new tea"]
    again = await _delete(client, filters={"year": {"lt": 2010}})
    assert (again["matched"], again["deleted"]) == (0, 0)


async def test_the_memorys_own_fields_can_be_asked_for(client: httpx.AsyncClient) -> None:
    await _add(client, "alice", "tea")
    assert (await _delete(client, filters={"role": "assistant"}))["matched"] == 0
    assert (await _delete(client, filters={"created_at": {"gt": "2020-01-01"}}))["deleted"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {"user_id": "alice"},
        {"user_id": "alice", "filters": {}},
        {"filters": {"a": 1}},
        {"user_id": "*", "filters": {"a": 1}},
        {"user_id": "alice", "filters": {"a": {"near": 1}}},
    ],
)
async def test_unclear_deletions_are_refused(client: httpx.AsyncClient, body: Any) -> None:
    await _add(client, "alice", "tea")
    assert (await client.post("/v1/memories/delete", json=body)).status_code == 400
    assert await _texts(client, "alice") == ["tea"]


async def test_more_than_a_page_goes_at_once(client: httpx.AsyncClient) -> None:
    messages = [{"content": f"tea {i}"} for i in range(1_203)]
    body = {"user_id": "alice", "messages": messages, "metadata": {"a": 1}, "infer": False}
    await client.post("/v1/memories", json=body)
    gone = await _delete(client, filters={"a": 1})
    assert gone["deleted"] == gone["matched"] == 1_203
    assert len(gone["ids"]) == 1_000
    assert await _texts(client, "alice") == []
