"""`/v1/chat/completions` and `/v1/completions` with the field `memory`, and `/v1/reports/{id}`."""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from inferscale.protocol.chat import REPORT_HEADER, MemoryReport
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

CurrentTenant = Callable[..., Awaitable[Tenant]]
"""Dependency that authenticates a request."""


def chat_router(service: ChatService, engine: Engine, tenant: CurrentTenant) -> APIRouter:
    """The routes.

    Args:
        service: prepares requests and finishes answers.
        engine: where they are sent.
        tenant: see `CurrentTenant`.
    """
    router = APIRouter(tags=["chat"])
    exchange = _Exchange(service, engine)

    @router.post("/v1/chat/completions")
    async def chat_completions(
        request: Request, who: Annotated[Tenant, Depends(tenant)]
    ) -> Response:
        return await exchange.run(request, who, "chat")

    @router.post("/v1/completions")
    async def completions(request: Request, who: Annotated[Tenant, Depends(tenant)]) -> Response:
        return await exchange.run(request, who, "completions")

    @router.get("/v1/reports/{request_id}")
    async def report(request_id: str, who: Annotated[Tenant, Depends(tenant)]) -> MemoryReport:
        return await service.reports.get(who, request_id)

    return router


class _Exchange:
    """One request, from the client to the engine and back."""

    def __init__(self, service: ChatService, engine: Engine) -> None:
        self._service, self._engine = service, engine

    async def run(self, request: Request, tenant: Tenant, endpoint: Endpoint) -> Response:
        started = time.perf_counter()
        body = await json_object(request)
        if body.get("stream"):
            hold_stream(request, tenant)
        try:
            prepared = await unless_gone(request, self._service.prepare(tenant, endpoint, body))
            sent = EngineRequest(
                "POST",
                prepared.path,
                headers={**to_engine(request.headers.items()), **_JSON},
                content=prepared.content,
            )
            upstream = await unless_gone(request, self._engine.open(sent))
            if prepared.is_stream and upstream.status == 200:
                return self._stream(tenant, prepared, upstream, started)
            try:
                answer = await unless_gone(request, upstream.read())
            finally:
                await upstream.aclose()
        except ClientGone:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        if upstream.status == 200:
            seconds = time.perf_counter() - started
            answer = await self._service.finish(tenant, prepared, answer, seconds)
        return Response(answer, upstream.status, _headers(upstream, prepared))

    def _stream(
        self, tenant: Tenant, prepared: PreparedRequest, upstream: EngineResponse, started: float
    ) -> Response:
        def end(first: float) -> None:
            seconds = time.perf_counter() - started
            self._service.finish_stream(tenant, prepared, first - started, seconds)

        return RelayResponse(upstream, _headers(upstream, prepared), on_end=end)


def _headers(upstream: EngineResponse, prepared: PreparedRequest) -> dict[str, str]:
    headers = to_client(upstream.headers, rewritten=True)
    if prepared.memory is not None:
        headers[REPORT_HEADER] = prepared.memory.request_id
    return headers


_JSON = {"content-type": "application/json", "accept-encoding": "identity"}
