"""Mem0's `rerank=True`: the sidecar's reranker decides, and its score is shown."""

from typing import Any

import pytest

from inferscale.compat.mem0 import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient

BASE_URL = "http://127.0.0.1:8420"


@pytest.fixture
def memory(connect: Any, http_client: Any, api_key: str) -> Any:
    config = {"inferscale": {"base_url": BASE_URL, "api_key": api_key}}
    return connect(Memory, AsyncMemory, config=config, http_client=http_client)


@pytest.fixture
def client(connect: Any, http_client: Any, api_key: str) -> Any:
    options = {"api_key": api_key, "host": BASE_URL, "client": http_client}
    return connect(MemoryClient, AsyncMemoryClient, **options)


async def _check_reranked(mem0: Any) -> None:
    for text in ("tea", "milk and honey, with much more to say"):
        await mem0.add(text, user_id="alice", infer=False)
    scope = {"filters": {"user_id": "alice"}, "top_k": 2}
    plain = (await mem0.search("tea", **scope, rerank=False))["results"]
    assert plain[0]["memory"] == "tea" and "rerank_score" not in plain[0]
    hits = (await mem0.search("tea", **scope, rerank=True))["results"]
    assert [hit["rerank_score"] for hit in hits] == [len(hit["memory"]) / 1_000 for hit in hits]
    assert hits[0]["memory"].startswith("milk")
    assert {hit["score"] for hit in hits} == {hit["score"] for hit in plain}


async def test_memory_reranks(memory: Any) -> None:
    await _check_reranked(memory)


async def test_the_hosted_client_reranks(client: Any) -> None:
    await _check_reranked(client)


async def test_the_platforms_keyword_search_is_what_a_search_does(client: Any) -> None:
    await client.add("tea", user_id="alice", infer=False)
    found = await client.search("tea", user_id="alice", keyword_search=True)
    assert [hit["memory"] for hit in found["results"]] == ["tea"]
