"""Who may call what, and that two tenants never meet."""

from typing import Any

import httpx
import pytest

ANSWER = {"user_id": "alice", "messages": "secret of one"}


def _bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_a_local_program_needs_no_key(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/memories", json=ANSWER)).status_code == 200
    # What OpenAI clients send when they were given an empty key.
    answer = await client.get("/v1/builds", headers={"authorization": "Bearer "})
    assert answer.status_code == 200
    # What they send when they must have one: not of our keys' form, so not taken for a key.
    for placeholder in ("none", "sk-unused"):
        answer = await client.get("/v1/builds", headers=_bearer(placeholder))
        assert answer.status_code == 200


async def test_a_placeholder_is_no_key_once_there_are_keys(client: httpx.AsyncClient) -> None:
    await client.post("/v1/keys", json={"name": "root", "scopes": ["admin"]})
    assert (await client.get("/v1/builds", headers=_bearer("none"))).status_code == 401


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1"])
@pytest.mark.parametrize("base_url", ["http://localhost:1", "http://127.0.0.1", "http://[::1]:1"])
async def test_every_spelling_of_this_machine(create_client: Any, peer: str, base_url: str) -> None:
    async with create_client(peer=peer, base_url=base_url) as client:
        assert (await client.get("/v1/builds")).status_code == 200


@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ({"peer": "10.0.0.7"}, {}),
        ({"peer": "not an address"}, {}),
        ({}, {"x-forwarded-for": "127.0.0.1"}),
        ({}, {"forwarded": "for=127.0.0.1"}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({"base_url": "http://evil.example"}, {}),
        ({"base_url": "http://127.0.0.1.evil.example"}, {}),
    ],
    ids=str,
)
async def test_others_need_one(
    create_client: Any, options: dict[str, str], headers: dict[str, str]
) -> None:
    async with create_client(**options) as client:
        for method, path in (
            ("GET", "/v1/memories?user_id=alice"),
            ("POST", "/v1/recall"),
            ("GET", "/v1/keys"),
        ):
            answer = await client.request(method, path, headers=headers, json={})
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["type"] == "authentication_error"
        for path in ("/health", "/ready", "/version", "/metrics"):
            assert (await client.get(path, headers=headers)).status_code == 200


@pytest.mark.parametrize("header", ["Basic eDp5", "Bearer isk_wrong", "isk_1", "bearer isk_\u00e9"])
async def test_a_wrong_key_is_refused_and_not_repeated(
    client: httpx.AsyncClient, header: str
) -> None:
    raw = [(b"authorization", header.encode("latin-1"))]
    answer = await client.get("/v1/builds", headers=raw)
    assert answer.status_code == 401
    assert header.split()[-1] not in answer.text


async def test_keys_are_made_listed_and_revoked_over_http(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/keys", json={"name": "root", "scopes": ["admin"]})
    assert made.status_code == 201
    admin = _bearer(made.json()["secret"])
    assert (await client.get("/v1/keys")).status_code == 401, "the first key closes the door"
    reader = (
        await client.post("/v1/keys", json={"name": "r", "scopes": ["read"]}, headers=admin)
    ).json()
    listed = await client.get("/v1/keys", headers=admin)
    assert [key["name"] for key in listed.json()["results"]] == ["root", "r"]
    assert reader["secret"] not in listed.text

    reads = _bearer(reader["secret"])
    assert (await client.get("/v1/memories?user_id=a", headers=reads)).status_code == 200
    for method, path in (("POST", "/v1/memories"), ("DELETE", "/v1/memories?user_id=a")):
        answer = await client.request(method, path, headers=reads, json=ANSWER)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")
    assert (await client.get("/v1/keys", headers=reads)).status_code == 403

    path = f"/v1/keys/{reader['id']}"
    assert (await client.delete(path, headers=admin)).status_code == 204
    assert (await client.delete(path, headers=admin)).status_code == 404
    assert (await client.get("/v1/memories?user_id=a", headers=reads)).status_code == 401
    assert (await client.post("/v1/keys", json={"name": " "}, headers=admin)).status_code == 400


async def test_two_tenants_with_equal_names_and_texts_never_meet(
    world: Any, client: httpx.AsyncClient
) -> None:
    one, two = [
        _bearer((await world.tenants.create_key(tenant.id, name="k"))[0])
        for tenant in (world.tenant, world.other)
    ]
    body = {"user_id": "alice", "messages": "likes tea"}
    mine = (await client.post("/v1/memories", json=body, headers=one)).json()["results"][0]
    theirs = (await client.post("/v1/memories", json=body, headers=two)).json()["results"][0]
    assert (mine["event"], theirs["event"]) == ("ADD", "ADD")
    query = {"user_id": "alice", "query": "likes tea"}
    handle = (await client.post("/v1/recall", json=query, headers=one)).json()["handle"]

    found = (await client.post("/v1/memories/search", json=query, headers=two)).json()["results"]
    assert [hit["id"] for hit in found] == [theirs["id"]]
    paths = [
        ("GET", f"/v1/memories/{mine['id']}"),
        ("PATCH", f"/v1/memories/{mine['id']}"),
        ("DELETE", f"/v1/memories/{mine['id']}"),
        ("GET", f"/v1/memories/{mine['id']}/history"),
        ("GET", f"/v1/handles/{handle}"),
    ]
    for method, path in paths:
        foreign = await client.request(method, path, headers=two, json={"text": "x"})
        unknown = await client.request(
            method,
            path.replace(mine["id"], theirs["id"][::-1]).replace(handle, "mh_" + "0" * 32),
            headers=two,
            json={"text": "x"},
        )
        assert foreign.status_code == unknown.status_code == 404
        assert set(foreign.json()["error"]) == set(unknown.json()["error"])
    await client.delete("/v1/memories?user_id=alice", headers=two)
    assert (await client.get(f"/v1/memories/{mine['id']}", headers=one)).status_code == 200
    assert (await client.get(f"/v1/handles/{handle}", headers=one)).json()["items"]
