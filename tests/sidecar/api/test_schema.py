"""Any request that the schema allows, and many that it forbids: no 5xx, nothing undocumented."""

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.sidecar.engine.demo import demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine
from tests.sidecar.service.fakes import HashEmbedder

from inferscale.protocol.transfer import MEDIA_TYPE
from inferscale_sidecar.api.routes.health import ReadyState
from inferscale_sidecar.config import Config
from inferscale_sidecar.config.schema import McpConfig
from inferscale_sidecar.lifecycle.application import make_app
from inferscale_sidecar.lifecycle.builder import make_builder
from inferscale_sidecar.lifecycle.parts import Services, make_services
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.store import SqlStore, sqlite_url

T = TypeVar("T")
BASE_URL = "http://127.0.0.1:8420"
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def _config(home: Path) -> Config:
    return Config(home=home, cache=home, mcp=McpConfig(enabled=False))


_QUERIES = {
    "/v1/memories": {"user_id": "alice"},
    "/v1/store/items": {"user_id": "alice", "namespace": "notes", "key": "k"},
}


@schemathesis.serializer(MEDIA_TYPE)
def _lines(_context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


NOT_SPOKEN = {"POST /v1/responses", "POST /v1/messages"}
"""What this fake engine has no answer for; `chat/test_endpoints.py` has one that does."""


class PickyEngine(FakeEngine):
    """Refuses what it cannot read, as vLLM does."""

    async def _generate(self, request: Request) -> Response:
        try:
            self._ids(await request.json())
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return JSONResponse({"error": {"message": repr(error)}}, status_code=400)
        return await super()._generate(request)


class Sidecar:
    """A whole sidecar with a fake engine, on an event loop of its own; it knows some memories."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = SqlStore(sqlite_url(folder / "memory.db"))
        self.engine = PickyEngine()
        self.do(self.store.start())
        self.app = self._app(folder)
        key, _ = self.do(self.app.state.tenants.create_key("default", name="k", scopes=["admin"]))
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url=BASE_URL,
            headers={"authorization": f"Bearer {key}"},
        )
        self.number = 0
        self.seen: dict[str, set[int]] = {}

    def send(self, case: Any) -> httpx.Response:
        sent = case.as_transport_kwargs(base_url=BASE_URL)
        sent.pop("cookies", None)
        sent["headers"] = [
            (name.encode(), value.encode("utf-8", "replace"))
            for name, value in sent["headers"].items()
        ]
        answer = self.do(self.client.request(**sent))
        self.seen.setdefault(case.operation.label, set()).add(answer.status_code)
        return answer

    def steer(self, case: Any) -> None:
        """Point a case to what is there: unknown ids and missing scopes are refused all alike."""
        self.number += 1
        if case.headers:
            case.headers.pop("Idempotency-Key", None)
        if case.path == "/v1/import":
            case.body = self.do(self.client.get("/v1/export")).text
        if isinstance(case.body, dict):
            case.body |= _towards(case, self.number)
        if case.query is not None:
            case.query |= _QUERIES.get(case.path, {})
        for name in case.path_parameters or ():
            case.path_parameters[name] = self.do(self._known(name))

    async def _known(self, name: str) -> str:
        """A value of this path parameter that leads somewhere."""
        note = {"user_id": "alice", "messages": f"note {self.number % 5}"}
        if name == "memory_id":
            added = await self.client.post("/v1/memories", json=note | {"infer": False})
            return str(added.json()["results"][0]["id"])
        if name == "extraction_id":
            added = await self.client.post("/v1/memories", json=note | {"infer": True})
            return str(added.json()["extraction"]["id"])
        if name == "handle":
            body = {"user_id": "alice", "query": "note"}
            return str((await self.client.post("/v1/recall", json=body)).json()["handle"])
        if name == "key_id":
            return str((await self.client.post("/v1/keys", json={"name": "k"})).json()["id"])
        if name in ("thread_id", "message_id"):
            thread = {"id": "thread-1", "user_id": "alice"}
            await self.client.post("/v1/threads", json=thread)
        if name == "thread_id":
            return "thread-1"
        if name == "message_id":
            added = await self.client.post(
                "/v1/threads/thread-1/messages", json={"messages": f"note {self.number}"}
            )
            return str(added.json()["messages"][0]["id"])
        if name == "block_id":
            block = {"user_id": "alice", "label": f"label-{self.number}", "value": "red red"}
            return str((await self.client.post("/v1/blocks", json=block)).json()["id"])
        if name == "request_id":
            body = {"messages": [{"role": "user", "content": "note"}], "memory": {"user_id": "a"}}
            answer = await self.client.post("/v1/chat/completions", json=body)
            return str(answer.json()["memory"]["request_id"])
        raise AssertionError(f"nobody knows where to get a {name}; say it here")

    def _app(self, home: Path) -> FastAPI:
        client, metrics, config = self.engine.client(), Metrics(), _config(home)
        self.do(client.status())
        builder = make_builder(config, self.store, client, metrics, demo_tokenizer)
        services = make_services(config, self.store, HashEmbedder(), client, metrics, builder)
        return make_app(config, services, client, lambda: ReadyState(True), None)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.do(self.client.aclose())
        self.do(self.store.close())
        self.loop.close()


def _towards(case: Any, number: int) -> dict[str, Any]:
    """Fields that make a body meet what is there, as far as the operation has them."""
    user_id = ("alice", "bob")[number % 2]
    scope = {"user_id": user_id, "agent_id": None, "run_id": None, "app_id": None}
    fields = case.operation.body[0].definition["schema"].get("properties", {})
    wanted: dict[str, Any] = scope | {"query": "note"}
    wanted |= {"text": f"changed {case.body.get('text')!r:.40}"}
    wanted |= {"namespace": ["notes"], "key": "k", "index": None, "ttl": None}
    wanted |= {
        "label": f"notes-{number}",
        "limit": 99,
        "old": "red",
        "description": None,
        "if_version": None,
    }
    wanted |= {"value": {"said": "note"} if "key" in fields else "notes"}
    if user_id == "bob":
        wanted["filters"] = {"NOT": [{"role": {"in": ["nobody"]}}]}
    found = {name: value for name, value in wanted.items() if name in fields}
    if "messages" in fields and "memory" in fields:
        found["messages"] = [{"role": "user", "content": "note"}]
    if isinstance(case.body.get("memory"), dict):
        found["memory"] = case.body["memory"] | scope | {"query": "note", "handle": None}
    return found


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    sidecar = Sidecar(tmp_path_factory.mktemp("sidecar"))
    yield sidecar
    sidecar.close()


def _schema() -> dict[str, Any]:
    """What `/openapi.json` shows; it depends on the routes alone."""
    unused: Any = dict.fromkeys(field.name for field in fields(Services))
    services = Services(**(unused | {"metrics": Metrics()}))
    return make_app(_config(Path()), services, unused, lambda: ReadyState(True), None).openapi()


# The quality check compares what a real model says; with a fake one it has nothing to say.
schema = schemathesis.openapi.from_dict(_schema()).exclude(path_regex="^/v1/quality")


@schema.parametrize()
@settings(max_examples=4, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_documented(case: Any, sidecar: Sidecar) -> None:
    answer = sidecar.send(case)
    assert _is_no_failure(answer)
    if case.method != case.operation.method.upper():
        return  # nobody's route here, so the engine's affair
    case.validate_response(answer, checks=CHECKS)
    if answer.status_code >= 400:
        sidecar.steer(case)
        answer = sidecar.send(case)
        assert _is_no_failure(answer)
        case.validate_response(answer, checks=CHECKS)


def _is_no_failure(answer: httpx.Response) -> bool:
    """No 5xx, but for what this set-up says that it does not offer: it has no model to rerank."""
    if answer.status_code == 501:
        return bool(answer.json()["error"]["code"] == "unsupported")
    return answer.status_code < 500


def test_every_operation_was_also_answered_with_success(sidecar: Sidecar) -> None:
    refused = {label for label, codes in sidecar.seen.items() if not codes & {200, 201, 204}}
    assert refused <= NOT_SPOKEN
