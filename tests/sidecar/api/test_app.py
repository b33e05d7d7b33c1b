"""The application as a whole: errors on every path, limits, streams, health, metrics, schema."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import StreamingResponse

from inferscale_sidecar import errors
from inferscale_sidecar.api.problem import STATUS
from inferscale_sidecar.api.routes.health import ReadyState

router = APIRouter()


@router.get("/boom")
async def boom() -> None:
    raise RuntimeError("the password is hunter2")


@router.get("/raise/{name}")
async def raise_error(name: str) -> None:
    raise getattr(errors, name)("what happened and what to do")


@router.post("/echo")
async def echo(body: dict[str, Any]) -> int:
    return len(body)


@router.get("/stream")
async def stream() -> StreamingResponse:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.sleep(3600)

    return StreamingResponse(chunks())


@router.get("/torn")
async def torn() -> StreamingResponse:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        raise RuntimeError("torn")

    return StreamingResponse(chunks())


@pytest.fixture
async def client(create_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(router, max_body_bytes=1000) as client:
        yield client


def _is_openai_error(answer: httpx.Response) -> bool:
    error = answer.json()["error"]
    return set(error) == {"message", "type", "param", "code"} and all(
        isinstance(error[name], str) and error[name] for name in ("message", "type", "code")
    )


async def test_every_domain_error_has_a_status_and_the_openai_shape(
    client: httpx.AsyncClient,
) -> None:
    def family(cls: type[errors.SidecarError]) -> list[type[errors.SidecarError]]:
        return [cls, *(each for sub in cls.__subclasses__() for each in family(sub))]

    # Not `EngineError`, which the routes to the engine answer themselves.
    for cls in (each for each in family(errors.SidecarError) if each.__module__ == errors.__name__):
        answer = await client.get(f"/raise/{cls.__name__}")
        assert answer.status_code == next(STATUS[c] for c in cls.__mro__ if c in STATUS)[0]
        assert _is_openai_error(answer)
        assert answer.headers["x-request-id"]
        hidden = answer.status_code == 500
        assert ("what happened" in answer.text) != hidden
    answer = await client.get("/raise/EngineUnavailable")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/recall", 405),
        ("POST", "/health", 405),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
        ("GET", "/boom", 500),
        ("POST", "/echo", 400),
    ],
)
async def test_every_refusal_has_the_openai_shape(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == status
    assert _is_openai_error(answer)
    assert answer.headers["x-request-id"].startswith("req_")


async def test_an_unforeseen_error_is_logged_and_not_told(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = await client.get("/boom", headers={"x-request-id": "my-id.1"})
    assert "hunter2" not in answer.text
    assert "my-id.1" in caplog.text
    assert caplog.records[-1].exc_info is not None
    assert answer.headers["x-request-id"] == "my-id.1"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "é"])
async def test_a_strange_request_id_is_replaced(client: httpx.AsyncClient, given: str) -> None:
    raw = [(b"x-request-id", given.encode("latin-1"))]
    answer = await client.get("/health", headers=raw)
    assert answer.headers["x-request-id"].startswith("req_")


async def test_a_body_over_the_limit_is_refused_declared_or_not(client: httpx.AsyncClient) -> None:
    body = json.dumps({"x": "y" * 2000}).encode()
    headers = {"content-type": "application/json"}
    declared = await client.post("/echo", content=body, headers=headers)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    streamed = await client.post("/echo", content=pieces(), headers=headers)
    for answer in (declared, streamed):
        assert answer.status_code == 413
        assert _is_openai_error(answer)
        assert "1000 bytes" in answer.text
    small = await client.post("/echo", content=b'{"x": 1}', headers=headers)
    assert (small.status_code, small.json()) == (200, 1)


async def test_chunks_are_not_held_back(create: Callable[..., FastAPI]) -> None:
    """Drives the application by hand: the first chunk comes while the stream is still open."""
    sent: asyncio.Queue[Any] = asyncio.Queue()

    async def receive() -> Any:
        await asyncio.sleep(3600)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/stream",
        "raw_path": b"/stream",
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
        "scheme": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
    }
    running = asyncio.create_task(create(router)(scope, receive, sent.put))
    assert (await asyncio.wait_for(sent.get(), 5))["status"] == 200
    assert (await asyncio.wait_for(sent.get(), 5))["body"] == b"first"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stream_that_breaks_is_cut_and_not_completed(client: httpx.AsyncClient) -> None:
    with pytest.raises(RuntimeError, match="torn"):
        await client.get("/torn")


async def test_validation_errors_do_not_repeat_values(client: httpx.AsyncClient) -> None:
    secret = "hunter2"
    for body in (
        {"user_id": "alice", "messages": {"role": secret, "content": 5}},
        {"user_id": "alice", "query": "x", "k": secret},
        {"user_id": "alice", "messages": [{"content": {"a": secret}}]},
    ):
        for path in ("/v1/memories", "/v1/recall"):
            answer = await client.post(path, json=body)
            assert answer.status_code == 400
            assert secret not in answer.text


async def test_health_ready_and_version(
    client: httpx.AsyncClient, state: dict[str, ReadyState]
) -> None:
    assert (await client.get("/health")).json() == {"status": "ok"}
    assert (await client.get("/version")).json()["version"]
    assert (await client.get("/ready")).status_code == 200
    state["now"] = ReadyState(False, {"engine": "starting"})
    answer = await client.get("/ready")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not_ready", "parts": {"engine": "starting"}}
    assert (await client.get("/health")).status_code == 200


async def test_metrics_name_routes_and_never_ids(client: httpx.AsyncClient) -> None:
    await client.get("/v1/memories/some-memory-id")
    await client.post("/v1/recall", json={"user_id": "some-user", "query": "some words"})
    await client.get("/no/such/some-path")
    text = (await client.get("/metrics")).text
    assert "some-" not in text
    samples = {
        (sample.name, sample.labels.get("route"), sample.labels.get("code")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    name = "inferscale_http_requests_total"
    assert samples[name, "/v1/memories/{memory_id}", "404"] == 1
    assert samples[name, "/v1/recall", "200"] == 1
    assert samples[name, "unmatched", "404"] == 1
    assert samples["inferscale_handles_active", None, None] == 1


async def test_metrics_follow_the_rules_of_naming(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    families = list(text_string_to_metric_families(text))
    for family in families:
        assert family.name.startswith("inferscale_")
        assert family.documentation
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_items"))
    assert sum(len(family.samples) for family in families) < 2000
    openmetrics = await client.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert openmetrics.text.endswith("# EOF\n")


async def test_the_schema_documents_what_happens(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/openapi.json")).json()
    assert "/v1/memories/{memory_id}" in schema["paths"]
    for path in schema["paths"].values():
        for operation in path.values():
            assert "422" not in operation["responses"]
            assert {"400", "404", "500"} <= set(operation["responses"])
    assert "HTTPValidationError" not in json.dumps(schema)
