"""A real sidecar application in its own process, with a scripted engine, for framework tests.

Run by the project's own interpreter, because the frameworks' environments hold no sidecar:
`python tests/integrations/served.py FOLDER` prints its address and serves until it is stopped.
Beside the real routes there are `/test/…`: what the engine was sent, and a clock to be moved.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import APIRouter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.sidecar.service.fakes import HashEmbedder

from inferscale_sidecar.api.app import create_app
from inferscale_sidecar.api.auth import writing_tenant
from inferscale_sidecar.api.mcp import mcp_route
from inferscale_sidecar.api.routes.chat import chat_router
from inferscale_sidecar.api.routes.documents import create_documents_router
from inferscale_sidecar.api.routes.health import ReadyState
from inferscale_sidecar.api.routes.passthrough import passthrough_router
from inferscale_sidecar.compose.frame import MemoryFrame
from inferscale_sidecar.config import Config
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.lifecycle.mcp import load_mcp, mcp_running
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.blocks import BlockService
from inferscale_sidecar.service.chat import ChatService
from inferscale_sidecar.service.documents import DocumentService
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.service.threads import ThreadService
from inferscale_sidecar.service.write_back import WriteBack
from inferscale_sidecar.store import SqlStore, sqlite_url

MODEL = "scripted"


class Clock:
    """The sidecar's time; tests move it to let handles expire."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class ScriptedEngine:
    """Says what it was told: its answer is the system message, or a call of the first tool.

    A user message "call TOOL {json}" asks for that tool; with its result in the prompt it answers.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        routes = [
            Route("/v1/models", self._models),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/inferscale/{path:path}", self._control, methods=["GET", "POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def _control(self, request: Request) -> Response:
        return JSONResponse({"error": "no connector"}, status_code=404)

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        if body.get("tools") == []:
            return _refusal(400, "BadRequestError", "tools", "`tools` must not be an empty array")
        if body.get("model") not in (None, "", MODEL):  # as vLLM has it
            return _refusal(404, "NotFoundError", "model", "no such model")
        self.bodies.append(body)
        message = self._message(body["messages"])
        if body.get("stream"):
            return StreamingResponse(self._chunks(message), media_type="text/event-stream")
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return JSONResponse({**_head("chat.completion"), "choices": [choice], "usage": _USAGE})

    def _message(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        last = messages[-1]
        words = _asked(_text(last)).split(" ", 2)
        if last["role"] == "user" and words[0] == "call":
            function = {"name": words[1], "arguments": words[2] if len(words) > 2 else "{}"}
            call = {"id": "call_1", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        system = next((_text(m) for m in messages if m["role"] == "system"), "")
        return {"role": "assistant", "content": f"I was told: {system}"}

    async def _chunks(self, message: dict[str, Any]) -> AsyncIterator[bytes]:
        calls = [{**call, "index": n} for n, call in enumerate(message.get("tool_calls") or [])]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"tool_calls": calls}] if calls else []
        words = message["content"].split(" ") if message["content"] else []
        deltas += [{"content": word + " "} for word in words]
        for delta in deltas:
            yield _event([{"index": 0, "delta": delta, "finish_reason": None}])
        end = "tool_calls" if calls else "stop"
        yield _event([{"index": 0, "delta": {}, "finish_reason": end}])
        yield _event([], usage=_USAGE)
        yield b"data: [DONE]\n\n"


_USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def _refusal(code: int, kind: str, param: str, message: str) -> Response:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return JSONResponse({"error": error}, status_code=code)


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": MODEL}


def _event(choices: list[Any], **more: Any) -> bytes:
    body = {**_head("chat.completion.chunk"), "choices": choices, **more}
    return f"data: {json.dumps(body)}\n\n".encode()


def _asked(text: str) -> str:
    """What a user asked: CrewAI puts it into a prompt of its own."""
    _, found, task = text.partition("Current Task: ")
    return task.partition("\n")[0] if found else text


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(p.get("text", "") for p in content)


def debug_routes(engine: ScriptedEngine, clock: Clock, embedder: HashEmbedder) -> APIRouter:
    router = APIRouter(prefix="/test")

    @router.get("/bodies")
    async def bodies() -> list[dict[str, Any]]:
        """What the engine was sent since the last look."""
        sent = list(engine.bodies)
        engine.bodies.clear()
        return sent

    @router.post("/advance/{days}")
    async def advance(days: float) -> None:
        clock.ahead += timedelta(days=days)

    @router.post("/embed")
    async def embed(texts: list[str]) -> list[list[float]]:
        """The vectors of the sidecar's own embedder."""
        return [[float(x) for x in vector] for vector in await embedder.embed(texts)]

    return router


async def serve(folder: Path) -> None:
    clock, scripted, metrics = Clock(), ScriptedEngine(), Metrics("test")
    store = SqlStore(sqlite_url(folder / "memory.db"), clock=clock)
    await store.start()
    embedder, frame = HashEmbedder(), MemoryFrame()
    searcher = Searcher(store, embedder, metrics, create_index=FlatIndex)
    recall = RecallService(store, searcher, frame, metrics, clock=clock)
    transport = httpx.ASGITransport(scripted.app)
    engine = EngineClient("http://engine", "a-secret-of-sixteen-or-more", transport=transport)
    chat = ChatService(engine, recall, store, frame)
    memory = MemoryService(store, embedder, searcher, metrics, is_kv_off=lambda: True)
    app = create_app(
        memory=memory,
        recall=recall,
        blocks=BlockService(store, metrics),
        threads=ThreadService(store, memory, recall, metrics),
        tenants=TenantService(store, metrics),
        metrics=metrics,
        readiness=lambda: ReadyState(True, {}),
        extra_routers=(
            create_documents_router(DocumentService(store, embedder, metrics, clock=clock)),
            chat_router(chat, engine, writing_tenant, WriteBack(memory)),
            debug_routes(scripted, clock, embedder),
            passthrough_router(engine, writing_tenant),
        ),
    )
    mcp = load_mcp(Config(home=folder, cache=folder))
    app.router.routes.append(mcp_route(mcp))
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio leaves this to us for a listener that it did not make: 40 ms for each answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    async with mcp_running(mcp):
        await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
