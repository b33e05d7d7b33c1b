"""Export and import over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from inferscale_sidecar.api.routes.transfer import create_transfer_router
from inferscale_sidecar.service.transfer import TransferService


@pytest.fixture
async def client(world: Any, create_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    router = create_transfer_router(TransferService(world.store, world.embedder))
    async with create_client(router, max_body_bytes=2_000) as client:
        yield client


async def add(client: httpx.AsyncClient, text: str, user_id: str = "alice") -> None:
    body = {"messages": text, "user_id": user_id, "infer": False}
    (await client.post("/v1/memories", json=body)).raise_for_status()


async def test_an_export_is_lines_and_comes_in_again(client: httpx.AsyncClient) -> None:
    await add(client, "tea")
    await add(client, "coffee", "bob")
    exported = await client.get("/v1/export", params={"user_id": "alice"})
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert [line.split('"')[3] for line in exported.text.splitlines()] == [
        "header",
        "memory",
        "end",
    ]
    await client.delete("/v1/memories", params={"user_id": "alice"})
    report = await client.post("/v1/import", content=exported.content, params={"restore": True})
    assert report.json()["memories"] == 1
    listed = await client.get("/v1/memories", params={"user_id": "alice"})
    assert [each["memory"] for each in listed.json()["results"]] == ["tea"]


async def test_an_import_may_be_larger_than_other_bodies(client: httpx.AsyncClient) -> None:
    for number in range(6):
        await add(client, f"{number} " + "x" * 500)
    exported = await client.get("/v1/export")
    assert len(exported.content) > 2_000
    report = await client.post("/v1/import", content=exported.content)
    assert (report.status_code, report.json()["unchanged"]) == (200, 6)


async def test_what_is_wrong_is_a_400_with_the_line(client: httpx.AsyncClient) -> None:
    await add(client, "tea")
    exported = await client.get("/v1/export")
    answer = await client.post("/v1/import", content=exported.content.replace(b'"tea"', b'" "'))
    assert answer.status_code == 400
    assert "line 2: memory: text is empty" in answer.json()["error"]["message"]
    assert (await client.post("/v1/import", content=b"")).status_code == 400
    assert (await client.post("/v1/import?dryrun=1", content=b"")).status_code == 400
    assert (await client.get("/v1/export?user_id=*")).status_code == 400


async def test_both_need_an_admin_key_and_see_its_tenant_only(
    world: Any, client: httpx.AsyncClient
) -> None:
    await add(client, "of the default tenant")
    writer, _ = await world.tenants.create_key(world.other.id, name="w")
    admin, _ = await world.tenants.create_key(world.other.id, name="a", scopes=["admin"])
    for method, path in (("GET", "/v1/export"), ("POST", "/v1/import")):
        headers = {"authorization": f"Bearer {writer}"}
        assert (await client.request(method, path, headers=headers)).status_code == 403
        assert (await client.request(method, path)).status_code == 401
    exported = await client.get("/v1/export", headers={"authorization": f"Bearer {admin}"})
    assert "of the default tenant" not in exported.text
