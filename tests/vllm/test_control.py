"""The control plane answers only who knows the secret, and never hides vLLM's own routes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from inferscale_vllm.bank import ItemHeader, checksum, open_bank
from inferscale_vllm.control import ControlPlane
from inferscale_vllm.report import Reporter
from inferscale_vllm.settings import Settings
from inferscale_vllm.state import open_state

SECRET = "the secret"
KEY, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        root=tmp_path,
        fingerprint="f" * 64,
        engine_id="engine",
        bank_size_bytes=2**24,
        num_ranks=1,
        verify_writes=False,
        secret=SECRET,
    )


@pytest.fixture
async def http(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async def vllm(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 218, "headers": []})
        await send({"type": "http.response.body", "body": b"vllm's own"})

    config = SimpleNamespace(
        model_config=SimpleNamespace(model="demo", max_model_len=99),
        cache_config=SimpleNamespace(block_size=16),
    )
    plane = ControlPlane(vllm, settings=settings)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = SimpleNamespace(state=SimpleNamespace(vllm_config=config))
        await plane(scope, receive, send)

    transport = httpx.ASGITransport(app=app)
    headers = {"x-inferscale-secret": SECRET}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://engine", headers=headers
    ) as client:
        yield client


def put(settings: Settings, key: str) -> None:
    kv = b"\x01" * 32
    header = ItemHeader(2, 0, len(kv), checksum(kv), np.arange(2, dtype=np.int32))
    bank = open_bank(settings.bank_path(0), limit_bytes=settings.bank_size_bytes)
    bank.put({key: (header, memoryview(kv))})


async def test_vllm_routes_pass(http: httpx.AsyncClient) -> None:
    assert (await http.post("/v1/completions", json={})).status_code == 218
    assert (await http.get("/inferscale", headers={})).status_code == 218


@pytest.mark.parametrize("path", ["status", "reports/x", "nothing"])
async def test_secret_comes_first(http: httpx.AsyncClient, path: str) -> None:
    for headers in ({"x-inferscale-secret": "no"}, {"x-inferscale-secret": ""}):
        assert (await http.get(f"/inferscale/{path}", headers=headers)).status_code == 401


async def test_items_are_seen_and_retired(http: httpx.AsyncClient, settings: Settings) -> None:
    put(settings, KEY)
    asked = {"keys": [KEY, OTHER]}
    assert (await http.post("/inferscale/items/query", json=asked)).json() == {
        "present": [KEY],
        "pending": [],
    }
    assert (await http.post("/inferscale/items/delete", json=asked)).json() == {"deleted": 1}
    open_state(settings.state_path).note("writer:0", {"pending": [OTHER]})
    assert (await http.post("/inferscale/items/query", json=asked)).json() == {
        "present": [],
        "pending": [OTHER],
    }


async def test_all_items_go_at_once(http: httpx.AsyncClient, settings: Settings) -> None:
    put(settings, KEY)
    put(settings, OTHER)
    gone = await http.post("/inferscale/items/delete", json={"all": True})
    assert gone.json() == {"deleted": 2}
    asked = {"keys": [KEY, OTHER]}
    left = await http.post("/inferscale/items/query", json=asked)
    assert left.json()["present"] == []


async def test_what_is_deleted_is_told_to_the_scheduler(
    http: httpx.AsyncClient, settings: Settings
) -> None:
    put(settings, KEY)
    deleted = {"keys": [KEY], "texts": ["a memory"]}
    assert (await http.post("/inferscale/items/delete", json=deleted)).json() == {"deleted": 1}
    log = settings.open_forgotten()
    assert log.since(0) == [KEY, "a memory"]
    assert (await http.get("/inferscale/status")).json()["prefix_cache"] == {
        "forgotten_blocks": 0,
        "waiting": 1,
    }
    Reporter(open_state(settings.state_path)).forgot(5, log.last)
    assert (await http.get("/inferscale/status")).json()["prefix_cache"] == {
        "forgotten_blocks": 5,
        "waiting": 0,
    }
    await http.post("/inferscale/items/delete", json={"all": True})
    assert log.since(1) is None


@pytest.mark.parametrize("texts", ["a memory", [5], [""], ["two\nlines"], ["x" * 65]])
async def test_bad_names_of_texts_are_400(http: httpx.AsyncClient, texts: Any) -> None:
    body = {"keys": [], "texts": texts}
    assert (await http.post("/inferscale/items/delete", json=body)).status_code == 400


async def test_a_bank_keeps_its_name_and_another_has_another(
    http: httpx.AsyncClient, settings: Settings, tmp_path: Path
) -> None:
    names = [(await http.get("/inferscale/status")).json()["bank_id"] for _ in range(2)]
    assert names[0] == names[1] == settings.bank_id and len(names[0]) == 16
    assert replace(settings, root=tmp_path / "elsewhere").bank_id != names[0]
    assert [path.name for path in settings.bank_path(0).parent.glob("id*")] == ["id"]


@pytest.mark.parametrize("body", ["[]", '{"keys": ["xyz"]}', '{"keys": 5}', "not json"])
async def test_bad_bodies_are_400(http: httpx.AsyncClient, body: str) -> None:
    response = await http.post("/inferscale/items/query", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


async def test_too_large_a_body_is_413(http: httpx.AsyncClient) -> None:
    response = await http.post("/inferscale/items/query", content=b"x" * (5 * 2**20))
    assert response.status_code == 413


async def test_switch_and_status(http: httpx.AsyncClient, settings: Settings) -> None:
    off = {"enabled": False, "reason": "self-test"}
    assert (await http.post("/inferscale/injection", json=off)).json() == off
    status = (await http.get("/inferscale/status")).json()
    assert status["injection"] == off and status["fingerprint"] == "f" * 64
    assert (await http.post("/inferscale/injection", json={"enabled": 1})).status_code == 400
    open_state(settings.state_path).note("unsupported", "because")
    status = (await http.get("/inferscale/status")).json()
    assert status["injection"] == {"enabled": False, "reason": "because"}


async def test_reports(http: httpx.AsyncClient, settings: Settings) -> None:
    open_state(settings.state_path).report("r 1", {"injected": 4}, {})
    assert (await http.get("/inferscale/reports/r 1")).json() == {"injected": 4, "max_error": None}
    assert (await http.get("/inferscale/reports/r 2")).status_code == 404
