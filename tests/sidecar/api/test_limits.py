"""Limits over HTTP: 429 with `Retry-After` and `RateLimit` fields, and what to do about it."""

import asyncio
from typing import Annotated, Any

import httpx
import openai
import pytest
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import StreamingResponse

from inferscale_sidecar.api.auth import chatting_tenant
from inferscale_sidecar.api.limits import hold_stream
from inferscale_sidecar.api.routes.documents import create_documents_router
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import QuotaExceeded

NOTE = {"user_id": "alice", "messages": "she likes tea"}


async def _limit(world: Any, **limits: int) -> None:
    await world.tenants.set_limits("default", limits)


async def test_without_limits_nothing_is_said(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/memories", json=NOTE)
    assert answer.status_code == 200
    assert "ratelimit" not in answer.headers
    assert "ratelimit-policy" not in answer.headers


async def test_requests_are_counted_by_kind(client: httpx.AsyncClient, world: Any) -> None:
    await _limit(world, write_per_minute=2, read_per_minute=100)
    left = []
    for _ in range(2):
        answer = await client.post("/v1/memories", json=NOTE)
        assert answer.status_code == 200
        assert answer.headers["ratelimit-policy"] == '"write";q=2;w=60'
        left.append(answer.headers["ratelimit"].split(";")[1])
    assert left == ["r=1", "r=0"]
    refused = await client.post("/v1/memories", json=NOTE)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert refused.headers["ratelimit"].startswith('"write";r=0;t=')
    # A search is a read, though it is a POST.
    body = {"user_id": "alice", "query": "tea"}
    answer = await client.post("/v1/memories/search", json=body)
    assert answer.headers["ratelimit"].startswith('"read";r=99;')
    assert answer.json()["results"]


async def test_a_refusal_is_a_problem_and_openais_error(
    client: httpx.AsyncClient, world: Any
) -> None:
    await _limit(world, memories=1)
    await client.post("/v1/memories", json=NOTE)
    answer = await client.post("/v1/memories", json=NOTE | {"messages": "and coffee"})
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert (problem["status"], problem["limit"], problem["value"]) == (429, "memories", 1)
    assert problem["violated-policies"] == ["memories"]
    assert "delete what is not needed" in problem["detail"]
    assert problem["error"]["code"] == "quota_exceeded"
    assert problem["error"]["message"] == problem["detail"]
    assert answer.headers["retry-after"] == "3600"
    assert answer.headers["x-should-retry"] == "false"


PUT = {"op": "put", "namespace": ["a"], "value": {}}
MESSAGES = {"messages": [{"role": "user", "content": each} for each in ("one", "two")]}


@pytest.mark.parametrize(
    ("limit", "path", "body"),
    [
        ("blocks", "/v1/blocks", {"label": "b"}),
        ("threads", "/v1/threads", {"id": "t2", "user_id": "alice"}),
        ("messages", "/v1/threads/t/messages", MESSAGES | {"infer": False}),
        ("documents", "/v1/store/batch", {"operations": [PUT | {"key": k} for k in "xy"]}),
    ],
)
async def test_whatever_a_tenant_keeps_is_counted(
    create_client: Any, world: Any, limit: str, path: str, body: dict[str, Any]
) -> None:
    async with create_client(create_documents_router(world.documents)) as client:
        await client.post("/v1/threads", json={"id": "t", "user_id": "alice"})
        await client.post("/v1/blocks", json={"label": "a"})
        await _limit(world, **{limit: 1})
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "3600")
        problem = answer.json()
        assert (problem["limit"], problem["value"]) == (limit, 1)
        assert problem["error"]["code"] == "quota_exceeded"
        listed = (await client.get("/v1/memories", params={"user_id": "alice"})).json()
        assert listed["total"] == 0
        await _limit(world, **{limit: 3})
        assert (await client.post(path, json=body)).status_code < 300


async def test_a_text_over_its_limit_is_413(client: httpx.AsyncClient, world: Any) -> None:
    await _limit(world, text_bytes_per_memory=5)
    answer = await client.post("/v1/memories", json=NOTE)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "text_too_large"


async def test_a_tenants_limits_are_its_own(create_client: Any, world: Any) -> None:
    keys = [
        (await world.tenants.create_key(each.id, name="k"))[0]
        for each in (world.tenant, world.other)
    ]
    await _limit(world, read_per_minute=1)
    async with create_client() as client:
        codes = [
            (await client.get("/v1/builds", headers={"x-api-key": key})).status_code
            for key in (*keys, *keys)
        ]
    assert codes == [200, 200, 429, 200]


async def test_what_is_refused_is_counted_without_naming_the_tenant(
    client: httpx.AsyncClient, world: Any
) -> None:
    await _limit(world, memories=1, write_per_minute=2)
    for text in ("a", "b", "c"):
        await client.post("/v1/memories", json=NOTE | {"messages": text})
    shown = (await client.get("/metrics")).text
    for reason in ("memories", "write_per_minute"):
        assert f'inferscale_quota_rejections_total{{reason="{reason}"}} 1.0' in shown
    assert world.tenant.id not in shown.replace("default_", "")


async def test_health_and_metrics_are_never_limited(client: httpx.AsyncClient, world: Any) -> None:
    await _limit(world, read_per_minute=1)
    for path in ("/health", "/ready", "/metrics", "/version"):
        for _ in range(3):
            assert (await client.get(path)).status_code == 200


def _streams(started: asyncio.Event, gate: asyncio.Event) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/stream")
    async def stream(
        request: Request, who: Annotated[Tenant, Depends(chatting_tenant)]
    ) -> StreamingResponse:
        hold_stream(request, who)

        async def chunks() -> Any:
            yield b"first"
            started.set()
            await gate.wait()
            yield b"last"

        return StreamingResponse(chunks())

    return router


async def test_a_stream_counts_until_its_last_byte(create_client: Any, world: Any) -> None:
    await _limit(world, streams=1)
    started, gate = asyncio.Event(), asyncio.Event()
    async with create_client(_streams(started, gate)) as client:
        first = asyncio.create_task(client.post("/v1/stream"))
        await started.wait()
        refused = await client.post("/v1/stream")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        policy = '"streams";q=1;qu="concurrent-requests"'
        assert refused.headers["ratelimit-policy"] == policy
        gate.set()
        assert (await first).content == b"firstlast"
        assert (await client.post("/v1/stream")).status_code == 200


async def test_openais_client_raises_its_own_error_and_does_not_try_a_full_quota_again(
    create_client: Any, world: Any
) -> None:
    calls = []
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def full() -> None:
        calls.append(None)
        raise QuotaExceeded("no room", limit="memories", value=1)

    async with create_client(router) as http:
        client = openai.AsyncOpenAI(
            api_key="none", base_url="http://127.0.0.1:8420/v1", http_client=http
        )
        with pytest.raises(openai.RateLimitError, match="no room") as caught:
            await client.chat.completions.create(model="m", messages=[])
    assert caught.value.code == "quota_exceeded"
    assert len(calls) == 1
