"""Extraction over HTTP: what the answer says of facts, failures and what is still to come."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import httpx
import pytest

from inferscale_sidecar.extract import Extracted, ExtractionFailed, Fact, Turn
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.memory_facts import FactWriter
from inferscale_sidecar.service.reconcile import Reconciler
from inferscale_sidecar.service.search import Searcher


class Extractor:
    is_broken = False

    async def extract(self, turns: Sequence[Turn], *, now: datetime, salt: str = "") -> Extracted:
        if self.is_broken:
            raise ExtractionFailed("the model is down", code="extraction_unavailable")
        return Extracted(tuple(Fact(f"fact: {t.text}", (i,)) for i, t in enumerate(turns)), 1)

    async def close(self) -> None: ...


@pytest.fixture
def extractor(world: Any) -> Extractor:
    """Makes the application's memory service extract."""
    extractor = Extractor()
    searcher = Searcher(world.store, world.embedder, world.metrics)
    world.memory = MemoryService(
        world.store,
        world.embedder,
        searcher,
        world.metrics,
        facts=FactWriter(world.store, world.embedder, extractor, Reconciler(searcher)),
        infers=True,
    )
    return extractor


async def test_infer_left_out_is_as_the_server_is_set_up(
    extractor: Extractor, client: httpx.AsyncClient
) -> None:
    message = {"role": "user", "content": "tea", "timestamp": "2026-01-02T03:04:05+02:00"}
    body = {"user_id": "alice", "messages": [message]}
    answer = (await client.post("/v1/memories", json=body)).json()
    (fact,) = answer["results"]
    assert (fact["memory"], fact["status"]) == ("fact: tea", "extracted")
    assert answer["extraction"]["facts"] == answer["extraction"]["dropped"] == 1
    source = (await client.get(f"/v1/memories/{fact['sources'][0]}")).json()
    assert (source["memory"], source["status"], source["kind"]) == ("tea", "source", "turn")
    assert (
        (await client.get(f"/v1/memories/{fact['id']}"))
        .json()["said_at"]
        .startswith("2026-01-02T01:04:05")
    )
    verbatim = await client.post("/v1/memories", json=body | {"infer": False})
    assert verbatim.json()["results"][0]["memory"] == "tea"
    assert verbatim.json()["extraction"] is None


async def test_a_failure_is_visible_and_the_message_is_there(
    extractor: Extractor, client: httpx.AsyncClient
) -> None:
    extractor.is_broken = True
    body = {"user_id": "alice", "messages": "tea", "infer": True}
    answer = await client.post("/v1/memories", json=body)
    assert answer.status_code == 200
    (raw,) = answer.json()["results"]
    assert (raw["memory"], raw["status"], raw["error"]) == ("tea", "raw", "the model is down")
    job = answer.json()["extraction"]
    assert (job["state"], job["error"]["code"]) == ("failed", "extraction_unavailable")
    shown = await client.get(f"/v1/extractions/{job['id']}")
    assert shown.json()["results"][0]["status"] == "raw"
    listed = (await client.get("/v1/memories?user_id=alice")).json()
    assert [each["memory"] for each in listed["results"]] == ["tea"]


async def test_async_mode_answers_before_the_llm(
    extractor: Extractor, client: httpx.AsyncClient
) -> None:
    body = {"user_id": "alice", "messages": "tea", "async_mode": True}
    answer = (await client.post("/v1/memories", json=body)).json()
    assert [each["status"] for each in answer["results"]] == ["pending"]
    assert answer["extraction"]["state"] == "pending"


async def test_a_time_without_offset_is_refused(
    extractor: Extractor, client: httpx.AsyncClient
) -> None:
    message = {"content": "tea", "timestamp": "2026-01-02T03:04:05"}
    answer = await client.post("/v1/memories", json={"user_id": "a", "messages": [message]})
    assert answer.status_code == 400
