"""vLLM with our connector, as far as the sidecar can tell: an ASGI app with a bank in a dict.

It checks what it is sent with the connector's own parser, and finds items in prompts by token ids,
as the connector does.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from inferscale.protocol.engine import PROTOCOL_VERSION, SECRET_HEADER
from inferscale_sidecar.engine.client import EngineClient
from inferscale_vllm.operation import Build, Inject, Operation, parse

from .demo import demo_tokenizer
from .fake_shapes import answer, as_chat

SECRET = "a-secret-of-sixteen-or-more"


class FakeEngine:
    def __init__(self) -> None:
        self.bank: dict[str, tuple[int, ...]] = {}
        self.forgotten: list[str] = []
        self.deleted: list[str] = []
        self.shown: list[tuple[Operation, tuple[int, ...]]] = []
        self.prefixes: set[tuple[str, tuple[int, ...]]] = set()
        self.reports: dict[str, dict[str, Any]] = {}
        self.bodies: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.builds: list[Build] = []
        self.fingerprint = "fp-1"
        self.bank_id: str | None = "bank-1"
        self.enabled = True
        self.is_down = False
        self.has_connector = True
        self.capacity = 10**9
        self.refuse: Callable[[dict[str, Any]], bool] = lambda body: False
        self.gate = asyncio.Event()
        self.gate.set()
        self.aborted = asyncio.Event()
        self.build_delay_s = 0.0
        self.writing: dict[str, tuple[int, ...]] = {}
        self.writes_late = False
        self.is_full = False
        self.evicted = self.hits = 0
        self.storage = {"format": "plain"}
        self.tiers: dict[str, Any] | None = None
        self.now_building = self.most_building = self.tokenized = 0
        self.tokenizer = demo_tokenizer()
        self.first_event = b'data: {"choices": [1]}\n\n'
        self.app = Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/tokenize", self._tokenize, methods=["POST"]),
                Route("/v1/completions", self._generate, methods=["POST"]),
                Route("/v1/chat/completions", self._generate, methods=["POST"]),
                Route("/v1/responses", self._generate, methods=["POST"]),
                Route("/v1/messages", self._generate, methods=["POST"]),
                Route("/inferscale/{path:path}", self._control, methods=["GET", "POST"]),
                Route("/v1/{path:path}", self._echo, methods=["GET", "HEAD", "POST", "DELETE"]),
            ]
        )

    def client(self) -> EngineClient:
        return EngineClient("http://engine", SECRET, transport=_Wire(self))

    # -- routes

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "demo", "object": "model"}]})

    async def _tokenize(self, request: Request) -> Response:
        self.tokenized += 1
        return JSONResponse({"tokens": self._ids(await request.json())})

    async def _echo(self, request: Request) -> Response:
        self.requests.append(request)
        body = {
            "method": request.method,
            "path": request.url.path,
            "query": request.url.query,
            "body": (await request.body()).decode(),
        }
        headers = {"x-from-engine": "yes", "connection": "keep-alive"}
        return JSONResponse(body, status_code=418, headers=headers)

    async def _control(self, request: Request) -> Response:
        if not self.has_connector:
            return JSONResponse({"error": "no such path"}, status_code=404)
        if request.headers.get(SECRET_HEADER) != SECRET:
            return JSONResponse({"error": "secret"}, status_code=401)
        body = json.loads(await request.body() or b"{}")
        match request.path_params["path"].split("/"):
            case ["status"]:
                return JSONResponse(self._status())
            case ["items", "query"]:
                return JSONResponse(self._query(body["keys"]))
            case ["items", "delete"]:
                keys = list(self.bank) if body.get("all") else body["keys"]
                gone = [k for k in keys if self.bank.pop(k, None)]
                self.deleted += keys
                self.forgotten += body.get("texts", [])
                return JSONResponse({"deleted": len(gone)})
            case ["injection"]:
                self.enabled = body["enabled"]
                return JSONResponse(body)
            case ["reports", name] if name in self.reports:
                return JSONResponse(self.reports[name])
        return JSONResponse({"error": "no such thing"}, status_code=404)

    def _query(self, keys: list[str]) -> dict[str, list[str]]:
        pending = [key for key in keys if key in self.writing]
        return {"present": [key for key in keys if key in self.bank], "pending": pending}

    def _status(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL_VERSION,
            "fingerprint": self.fingerprint,
            "bank_id": self.bank_id,
            "model": "/models/demo",
            "injection": {"enabled": self.enabled, "reason": None},
            "block_size": 16,
            "max_model_len": 2048,
            "storage": self.storage,
            "tiers": self.tiers,
            "bank": {
                "items": len(self.bank),
                "used_bytes": 100 * len(self.bank),
                "limit_bytes": 10_000,
                "evicted_items": self.evicted,
                "is_full": self.is_full,
            },
            "counters": {"bank_hits": self.hits, "bank_misses": 1, "corrupt_items": 0},
        }

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.requests.append(request)
        if self.refuse(body):
            problem = {"message": "too hot", "type": "BadRequestError", "param": None, "code": 400}
            return JSONResponse({"error": problem}, status_code=400)
        path = request.url.path
        ids = self._ids(as_chat(path, body))
        operation = parse(body.get("kv_transfer_params"), secret=SECRET)
        if operation:
            self.shown.append((operation, tuple(ids)))
        if isinstance(operation, Build):
            report = await self._build(operation, ids)
        else:
            report = self._inject(operation, ids) if isinstance(operation, Inject) else None
        if body.get("stream"):
            return StreamingResponse(self._events(), media_type="text/event-stream")
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.aborted.set()
            raise
        return JSONResponse(self._answer(path, ids, report))

    def _answer(self, path: str, ids: list[int], report: dict[str, Any] | None) -> dict[str, Any]:
        params = {"inferscale": report} if report else None
        return {**answer(path, len(ids)), "kv_transfer_params": params}

    async def _events(self) -> AsyncIterator[bytes]:
        try:
            yield self.first_event
            await self.gate.wait()
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.aborted.set()
            raise

    # -- the connector

    def _ids(self, body: dict[str, Any]) -> list[int]:
        tokenizer = self.tokenizer
        if "messages" in body:
            messages = [{**m, "content": _flat(m.get("content"))} for m in body["messages"]]
            text = tokenizer.render(messages, tools=body.get("tools"))
            return list(tokenizer.encode(text).ids)
        prompt = body["prompt"]
        return prompt if isinstance(prompt, list) else list(tokenizer.encode(prompt).ids)

    async def _build(self, build: Build, ids: list[int]) -> dict[str, Any]:
        self.builds.append(build)
        self.now_building += 1
        self.most_building = max(self.most_building, self.now_building)
        try:
            await asyncio.sleep(self.build_delay_s)
        finally:
            self.now_building -= 1
        stored = []
        for capture in build.captures:
            assert capture.end < len(ids), "the last token of a prompt cannot be captured"
            if len(self.bank) < self.capacity:
                kept = self.writing if self.writes_late else self.bank
                kept[capture.key] = tuple(ids[capture.start : capture.end])
                stored.append(capture.key)
        if build.prefix_end is not None:
            self.prefixes.add((build.salt, tuple(ids[: build.prefix_end])))
            stored.append(self.key_of(build, tuple(ids[: build.prefix_end])))
        report = self._report(build.request_id, "build", len(ids), 0, None, stored)
        if self.writes_late:
            report["stored"], report["pending"] = [], stored
        return report

    def key_of(self, build: Build, prefix: tuple[int, ...]) -> str:
        """Of what the bank keeps of a prefix."""
        return hashlib.sha256(repr((build.salt, prefix)).encode()).hexdigest()

    def _inject(self, inject: Inject, ids: list[int]) -> dict[str, Any]:
        injected, reason = self._matched(inject, tuple(ids))
        return self._report(inject.request_id, "inject", len(ids), injected, reason, [])

    def _matched(self, inject: Inject, ids: tuple[int, ...]) -> tuple[int, str | None]:
        if not self.enabled:
            return 0, "disabled"
        if not inject.items:
            return 0, "no_items"
        items = [self.bank[k] for k in inject.items if k in self.bank]
        if len(items) < len(inject.items):
            return 0, "items_missing"
        run = tuple(i for item in items for i in item)
        starts = [n for n in range(len(ids)) if ids[n : n + len(run)] == run]
        if not starts:
            return 0, "items_not_in_prompt"
        prefix = (inject.salt, ids[: starts[-1]])
        if prefix not in self.prefixes:
            self.prefixes.add(prefix)
            return 0, "prefix_not_captured"
        return starts[-1] + len(run), None

    def _report(
        self, name: str, op: str, prompt: int, injected: int, reason: str | None, stored: list[str]
    ) -> dict[str, Any]:
        self.reports[name] = {
            "request_id": name,
            "op": op,
            "prompt": prompt,
            "injected": injected,
            "native": 0,
            "prefilled": prompt - injected,
            "reason": reason,
            "stored": stored,
            "max_error": None,
        }
        return self.reports[name]


class _Wire(httpx.AsyncBaseTransport):
    """The network between sidecar and engine, which can be cut."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._inner = httpx.ASGITransport(engine.app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._engine.is_down:
            raise httpx.ConnectError("connection refused")
        return await self._inner.handle_async_request(request)


def _flat(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(p["text"] for p in content)
