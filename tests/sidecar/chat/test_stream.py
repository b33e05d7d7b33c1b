"""Streams over real sockets: nothing is held back, and who hangs up stops the engine's work."""

import asyncio

import httpx
import pytest
from tests.sidecar.chat.stage import HELLO, Stage
from tests.sidecar.engine.fake_engine import SECRET, FakeEngine
from tests.sidecar.engine.served import served

from inferscale.protocol.chat import REPORT_HEADER
from inferscale_sidecar.engine.client import EngineClient

pytestmark = pytest.mark.timeout(60)
BODY = {"model": "demo", "messages": HELLO, "memory": {"handle": "mh_acme"}}
CHAT = "/v1/chat/completions"


@pytest.fixture
async def live():
    """A fake engine and a sidecar, both behind sockets, and a client."""
    engine = FakeEngine()
    async with served(engine.app) as engine_url, EngineClient(engine_url, SECRET) as client:
        await client.status()
        stage = Stage(engine, client)
        await stage.remember(*(f"Fact number {n}." for n in range(6)))
        async with served(stage.app) as url, httpx.AsyncClient(base_url=url) as http:
            yield stage, http


async def test_the_first_chunk_arrives_before_the_last_is_made(live):
    stage, http = live
    stage.engine.gate.clear()
    async with http.stream("POST", CHAT, json=BODY | {"stream": True}) as answer:
        chunks = answer.aiter_raw()
        assert await asyncio.wait_for(anext(chunks), 2) == b'data: {"choices": [1]}\n\n'
        report = await http.get(f"/v1/reports/{answer.headers[REPORT_HEADER]}")
        assert report.json()["mode"] == "injected"
        stage.engine.gate.set()
        assert b"".join([c async for c in chunks]) == b"data: [DONE]\n\n"
    async with asyncio.timeout(2):
        while ("ttft", "injected") not in stage.recorder.events:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("memory", [True, False])
async def test_hanging_up_aborts_the_engines_request(live, stream, memory):
    stage, http = live
    stage.engine.gate.clear()
    body = BODY | {"stream": stream}
    if not memory:
        del body["memory"]
    asking = asyncio.create_task(_read(http, body))
    async with asyncio.timeout(5):
        while not any("messages" in b for b in stage.engine.bodies):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        asking.cancel()
        if not stream:
            await _until_engine_sees_hang_up(stage.engine)
        else:
            await stage.engine.aborted.wait()


async def _read(http: httpx.AsyncClient, body) -> None:
    async with http.stream("POST", CHAT, json=body) as answer:
        async for _ in answer.aiter_raw():
            pass


async def _until_engine_sees_hang_up(engine: FakeEngine) -> None:
    """vLLM notices through the socket; so does this."""
    (request,) = [r for r in engine.requests[-1:] if r.method == "POST"]
    while not await request.is_disconnected():
        await asyncio.sleep(0.01)


async def test_an_engine_that_dies_in_mid_stream_ends_it_with_an_error_event():
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def half(request):
        async def events():
            yield b'data: {"choices": [1]}\n\n'
            raise RuntimeError("the engine dies")

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(routes=[Route(CHAT, half, methods=["POST"])])
    async with served(app) as engine_url, EngineClient(engine_url, SECRET) as client:
        stage = Stage(FakeEngine(), client)
        async with served(stage.app) as url, httpx.AsyncClient(base_url=url) as http:
            body = {"model": "demo", "messages": HELLO, "stream": True}
            text = (await http.post(CHAT, json=body)).text
    assert text.startswith('data: {"choices": [1]}')
    assert '"code": "engine_unavailable"' in text and text.endswith("data: [DONE]\n\n")


async def test_any_other_path_streams_too(live):
    stage, http = live
    stage.engine.gate.clear()
    stage.engine.app.router.routes.insert(0, _stream_route(stage.engine))
    async with http.stream("POST", "/v1/responses", json={"stream": True}) as answer:
        chunks = answer.aiter_raw()
        assert await asyncio.wait_for(anext(chunks), 2)
        stage.engine.gate.set()


def _stream_route(engine: FakeEngine):
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def events(request):
        return StreamingResponse(engine._events(), media_type="text/event-stream")

    return Route("/v1/responses", events, methods=["POST"])
