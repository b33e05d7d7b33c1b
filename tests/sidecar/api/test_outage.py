"""A database that goes away and comes back under a running service."""

import asyncio
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.parametrize("backend", ["postgres"], indirect=True)


async def test_requests_are_answered_with_503_until_it_is_back(
    client: httpx.AsyncClient, backend: Any
) -> None:
    memory = {"messages": "likes tea", "user_id": "alice", "infer": False}
    assert (await client.post("/v1/memories", json=memory)).status_code == 200
    scope = {"user_id": "alice"}
    await asyncio.to_thread(backend.stop)
    try:
        for _ in range(2):
            response = await client.get("/v1/memories", params=scope)
            assert response.status_code == 503
            assert response.headers["retry-after"] == "1"
            error = response.json()["error"]
            assert (error["code"], error["type"]) == ("store_unavailable", "unavailable_error")
            assert "retry" in error["message"] and backend.folder.name not in error["message"]
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/health")).status_code == 200
    finally:
        backend.start()
    response = await client.get("/v1/memories", params=scope)
    assert [found["memory"] for found in response.json()["results"]] == ["likes tea"]
