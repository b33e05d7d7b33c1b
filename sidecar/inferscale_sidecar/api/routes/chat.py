"""What asks the model, with memory in it, and `/v1/reports/{id}`.

The field `memory` of the body says whose memory; without it the headers may (`api.identity`).
"""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from inferscale.protocol.chat import REPORT_HEADER, MemoryField, MemoryReport
from inferscale_sidecar.api.identity import named_ids
from inferscale_sidecar.api.limits import hold_stream
from inferscale_sidecar.api.routes.relay import (
    CLIENT_CLOSED_REQUEST,
    ClientGone,
    RelayResponse,
    json_object,
    to_client,
    to_engine,
    unless_gone,
)
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.engine.base import Engine, EngineRequest, EngineResponse
from inferscale_sidecar.service.chat import ChatService, PreparedRequest
from inferscale_sidecar.service.chat_fields import Endpoint
from inferscale_sidecar.service.chat_turns import MAX_STREAM_BYTES
from inferscale_sidecar.service.write_back import REMEMBER_HEADER, WriteBack

CurrentTenant = Callable[..., Awaitable[Tenant]]
"""Dependency that authenticates a request."""


def chat_router(
    service: ChatService, engine: Engine, tenant: CurrentTenant, write_back: WriteBack
) -> APIRouter:
    """The routes.

    Args:
        service: prepares requests and finishes answers.
        engine: where they are sent.
        tenant: see `CurrentTenant`.
        write_back: remembers what users say, if asked to.
    """
    router = APIRouter(tags=["chat"])
    exchange = _Exchange(service, engine, write_back)

    @router.post("/v1/chat/completions", **_documented("messages"))
    async def chat_completions(
        request: Request, who: Annotated[Tenant, Depends(tenant)]
    ) -> Response:
        return await exchange.run(request, who, "chat")

    @router.post("/v1/completions", **_documented("prompt"))
    async def completions(request: Request, who: Annotated[Tenant, Depends(tenant)]) -> Response:
        return await exchange.run(request, who, "completions")

    @router.post("/v1/responses")
    async def responses(request: Request, who: Annotated[Tenant, Depends(tenant)]) -> Response:
        return await exchange.run(request, who, "responses")

    @router.post("/v1/messages")
    async def messages(request: Request, who: Annotated[Tenant, Depends(tenant)]) -> Response:
        return await exchange.run(request, who, "messages")

    @router.get("/v1/reports/{request_id}")
    async def report(request_id: str, who: Annotated[Tenant, Depends(tenant)]) -> MemoryReport:
        return await service.reports.get(who, request_id)

    return router


def _documented(needed: str) -> dict[str, Any]:
    """Bodies are the engine's affair, but for `memory`; so are most of its answers."""
    anything, text = {"type": "object"}, {"type": "string"}
    message = {"type": "object", "required": ["role"], "properties": {"role": text}}
    kinds = {
        "messages": {"type": "array", "minItems": 1, "items": message},
        "prompt": {"type": ["string", "array"]},
    }
    field = {"anyOf": [MemoryField.model_json_schema(), {"type": "null"}]}
    request = {
        "type": "object",
        "required": [needed],
        "properties": {"model": text, "stream": {"type": ["boolean", "null"]}, "memory": field}
        | {needed: kinds[needed]},
    }
    answers = {"application/json": {"schema": anything}, "text/event-stream": {}}
    refusal = {"application/json": {"schema": anything}}
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    return {
        "openapi_extra": {"requestBody": body},
        "responses": {
            200: {"description": "The engine's answer.", "content": answers},
            400: {"description": "Refused, here or by the engine.", "content": refusal},
        },
    }


class _Exchange:
    """One request, from the client to the engine and back."""

    def __init__(self, service: ChatService, engine: Engine, write_back: WriteBack) -> None:
        self._service, self._engine, self._write_back = service, engine, write_back

    async def run(self, request: Request, tenant: Tenant, endpoint: Endpoint) -> Response:
        started = time.perf_counter()
        body = await json_object(request)
        if body.get("stream"):
            hold_stream(request, tenant)
        ids = named_ids(request.headers)
        said = self._write_back.said(endpoint, body, ids, request.headers.get(REMEMBER_HEADER))
        try:
            work = self._service.prepare(tenant, endpoint, body, ids)
            prepared = await unless_gone(request, work)
            upstream = await self._open(request, prepared)
            written = self._write_back.start(tenant, said if upstream.status == 200 else None)
            if prepared.is_stream and upstream.status == 200:
                return self._stream(tenant, prepared, upstream, started)
            try:
                answer = await unless_gone(request, upstream.read())
            finally:
                await upstream.aclose()
        except ClientGone:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        await written
        if upstream.status == 200:
            seconds = time.perf_counter() - started
            answer = await self._service.finish(tenant, prepared, answer, seconds)
        return Response(answer, upstream.status, _headers(upstream, prepared))

    async def _open(self, request: Request, prepared: PreparedRequest) -> EngineResponse:
        sent = EngineRequest(
            "POST",
            prepared.path,
            headers={**to_engine(request.headers.items()), **_JSON},
            content=prepared.content,
        )
        return await unless_gone(request, self._engine.open(sent))

    def _stream(
        self, tenant: Tenant, prepared: PreparedRequest, upstream: EngineResponse, started: float
    ) -> Response:
        def end(first: float, sent: bytes) -> None:
            seconds = time.perf_counter() - started
            self._service.finish_stream(tenant, prepared, first - started, seconds, sent)

        kept = MAX_STREAM_BYTES if prepared.turn else 0
        return RelayResponse(upstream, _headers(upstream, prepared), on_end=end, keep_bytes=kept)


def _headers(upstream: EngineResponse, prepared: PreparedRequest) -> dict[str, str]:
    headers = to_client(upstream.headers, rewritten=True)
    if prepared.memory is not None:
        headers[REPORT_HEADER] = prepared.memory.request_id
    return headers


_JSON = {"content-type": "application/json", "accept-encoding": "identity"}
