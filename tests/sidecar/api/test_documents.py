"""`/v1/store` over HTTP: shapes, errors, scopes of keys, and tenants that do not meet."""

from typing import Any

import httpx
import pytest

from inferscale_sidecar.api.routes.documents import create_documents_router

ITEM = {"namespace": ["users", "alice"], "key": "settings", "value": {"theme": "dark"}}
WHERE = {"namespace": "users.alice", "key": "settings"}


@pytest.fixture
async def client(create_client: Any, world: Any) -> Any:
    async with create_client(create_documents_router(world.documents)) as client:
        yield client


async def test_put_get_search_list_delete(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/store/items", params=WHERE)).status_code == 404
    assert (await client.put("/v1/store/items", json=ITEM)).status_code == 204
    got = (await client.get("/v1/store/items", params=WHERE)).json()
    assert {name: got[name] for name in ITEM} == ITEM
    assert got["created_at"] == got["updated_at"]
    repeated = [("namespace", "users"), ("namespace", "alice"), ("key", "settings")]
    assert (await client.get("/v1/store/items", params=repeated)).json() == got
    search = {"namespace_prefix": ["users"], "filter": {"theme": {"$ne": "light"}}}
    found = await client.post("/v1/store/items/search", json=search)
    assert found.json() == {"items": [{**got, "score": None}]}
    listed = await client.post("/v1/store/namespaces", json={"max_depth": 1})
    assert listed.json() == {"namespaces": [["users"]]}
    assert (await client.delete("/v1/store/items", params=WHERE)).status_code == 204
    assert (await client.post("/v1/store/items/search", json={})).json() == {"items": []}


async def test_a_batch_answers_each_operation(client: httpx.AsyncClient) -> None:
    operations = [
        {"op": "put", **ITEM},
        {"op": "get", "namespace": ["users", "alice"], "key": "settings"},
        {"op": "search"},
        {"op": "namespaces"},
    ]
    first = await client.post("/v1/store/batch", json={"operations": operations})
    assert first.json() == {"results": [None, None, [], []]}
    second = (await client.post("/v1/store/batch", json={"operations": operations})).json()
    assert second["results"][1]["value"] == ITEM["value"]
    assert second["results"][2][0]["key"] == "settings"
    assert second["results"][3] == [["users", "alice"]]


async def test_a_users_documents_are_removed_together(client: httpx.AsyncClient) -> None:
    await client.put("/v1/store/items", json={**ITEM, "user_id": "alice"})
    await client.put("/v1/store/items", json=ITEM)
    assert (await client.delete("/v1/store")).status_code == 400
    gone = await client.delete("/v1/store", params={"user_id": "alice"})
    assert gone.json() == {"deleted": 1}
    assert (await client.get("/v1/store/items", params=WHERE)).status_code == 200


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"namespace": []}, "namespace"),
        ({"namespace": ["a.b"]}, "namespace.0"),
        ({"namespace": [""]}, "namespace.0"),
        ({"namespace": ["a\x00"]}, "namespace.0"),
        ({"namespace": ["a"] * 65}, "namespace"),
        ({"namespace": ["a" * 2000]}, "namespace"),
        ({"key": "k" * 513}, "key"),
        ({"key": "\x00"}, "key"),
        ({"value": [1]}, "value"),
        ({"ttl_s": 0}, "ttl_s"),
        ({"ttl_s": 1e300}, "ttl_s"),
        ({"user_id": "*"}, "user_id"),
        ({"user_id": ""}, "user_id"),
        ({"users": "alice"}, "users"),
        ({"index": True}, "index"),
    ],
)
async def test_a_bad_field_is_a_400_that_names_it(
    client: httpx.AsyncClient, change: dict[str, Any], param: str
) -> None:
    answer = await client.put("/v1/store/items", json={**ITEM, **change})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith(param)


@pytest.mark.parametrize(
    "params", [{"key": "k"}, {"namespace": "a..b", "key": "k"}, {**WHERE, "user": "x"}]
)
async def test_a_bad_query_is_a_400(client: httpx.AsyncClient, params: dict[str, str]) -> None:
    for method in ("GET", "DELETE"):
        assert (await client.request(method, "/v1/store/items", params=params)).status_code == 400


@pytest.mark.parametrize(
    "value",
    [
        '{"x": NaN}',
        '{"x": 1e999}',
        '{"x": "\\ud800"}',
        '{"x": ' + "[" * 20_000 + "]" * 20_000 + "}",
    ],
)
async def test_what_is_no_json_is_a_400(client: httpx.AsyncClient, value: str) -> None:
    body = f'{{"namespace": ["a"], "key": "k", "value": {value}}}'
    answer = await client.put(
        "/v1/store/items", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400, answer.text


async def test_odd_values_come_back_as_they_were(client: httpx.AsyncClient) -> None:
    value = {"z": 2**80, "a": "é\x00\u2028😀", "f": 0.1, "e": {}, "n": None, "t": True, "": [[]]}
    await client.put("/v1/store/items", json={**ITEM, "value": value})
    got = (await client.get("/v1/store/items", params=WHERE)).json()["value"]
    assert got == value
    assert list(got) == list(value)


async def test_keys_see_their_tenant_and_may_what_they_may(
    client: httpx.AsyncClient, world: Any
) -> None:
    def key(secret: str) -> dict[str, str]:
        return {"authorization": f"Bearer {secret}"}

    mine, _ = await world.tenants.create_key(world.tenant.id, name="mine", scopes=["read", "write"])
    reader, _ = await world.tenants.create_key(world.tenant.id, name="reader", scopes=["read"])
    other, _ = await world.tenants.create_key(
        world.other.id, name="other", scopes=["write", "read"]
    )
    assert (await client.put("/v1/store/items", json=ITEM)).status_code == 401
    assert (await client.put("/v1/store/items", json=ITEM, headers=key(mine))).status_code == 204
    for secret, status in ((mine, 200), (reader, 200), (other, 404)):
        got = await client.get("/v1/store/items", params=WHERE, headers=key(secret))
        assert got.status_code == status
    unknown = await client.get("/v1/store/items", params={**WHERE, "key": "x"}, headers=key(mine))
    foreign = await client.get("/v1/store/items", params=WHERE, headers=key(other))
    assert unknown.json() == foreign.json()
    read, write = {"op": "search"}, {"op": "put", **ITEM}
    for operations, status in (([read], 200), ([read, write], 403)):
        batch = await client.post(
            "/v1/store/batch", json={"operations": operations}, headers=key(reader)
        )
        assert batch.status_code == status
    for method, path in (("PUT", "/v1/store/items"), ("DELETE", "/v1/store?user_id=alice")):
        refused = await client.request(method, path, json=ITEM, headers=key(reader))
        assert refused.status_code == 403
