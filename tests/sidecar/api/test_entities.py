"""Entities over HTTP."""

from typing import Any


async def test_who_has_memories_is_listed_by_type_and_page_by_page(client: Any) -> None:
    for ids in ({"user_id": "alice", "app_id": "mail"}, {"user_id": "bob"}, {"agent_id": "guide"}):
        added = await client.post("/v1/memories", json={"messages": "tea", "infer": False} | ids)
        assert added.status_code == 200
    first = (await client.get("/v1/entities?limit=3")).json()
    found = [(each["type"], each["id"], each["memories"]) for each in first["results"]]
    assert found == [("user", "alice", 1), ("app", "mail", 1), ("user", "bob", 1)]
    assert first["total"] == 4
    rest = (await client.get(f"/v1/entities?cursor={first['next_cursor']}")).json()
    assert [each["id"] for each in rest["results"]] == ["guide"]
    assert rest["next_cursor"] is None
    apps = (await client.get("/v1/entities?type=app")).json()
    assert apps["results"] == [first["results"][1]]


async def test_what_makes_no_sense_is_a_400(client: Any) -> None:
    for query in ("type=user_id", "type=*", "limit=0", "cursor=x", "user_id=alice"):
        answer = await client.get(f"/v1/entities?{query}")
        assert 400 <= answer.status_code < 500, query
