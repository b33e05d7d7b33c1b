"""Every other `/v1/*` path: to vLLM and back, unchanged but for the tenant's cache salt.

Owns which paths may cross. Must be registered last. Invariant: nothing outside `/v1/` of the engine
can be reached, whatever the path is spelled like.
"""

import json
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from inferscale_sidecar.api.limits import hold_stream
from inferscale_sidecar.api.routes.chat import CurrentTenant
from inferscale_sidecar.api.routes.relay import (
    CLIENT_CLOSED_REQUEST,
    ClientGone,
    RelayResponse,
    to_client,
    to_engine,
    unless_gone,
)
from inferscale_sidecar.compose.keys import cache_salt
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.engine.base import Engine, EngineRequest
from inferscale_sidecar.errors import InvalidInput, NotFound
from inferscale_sidecar.service.chat_fields import own_salt, refuse_reserved

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_GENERATING = frozenset({"responses", "messages", "chat", "completions"})
"""First path segments of what fills vLLM's prefix cache."""


def passthrough_router(engine: Engine, tenant: CurrentTenant) -> APIRouter:
    """The catch-all of `/v1/`.

    Args:
        engine: where requests go.
        tenant: authenticates a request.
    """
    router = APIRouter(include_in_schema=False)

    @router.api_route("/v1/{path:path}", methods=METHODS)
    async def forward(
        path: str, request: Request, who: Annotated[Tenant, Depends(tenant)]
    ) -> Response:
        content, is_stream = _checked_body(path, await request.body(), who)
        if is_stream:
            hold_stream(request, who)
        sent = EngineRequest(
            request.method,
            f"/v1/{_checked(path)}",
            query=request.url.query,
            headers=to_engine(request.headers.items()),
            content=content,
        )
        try:
            upstream = await unless_gone(request, engine.open(sent))
        except ClientGone:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return RelayResponse(upstream, to_client(upstream.headers))

    return router


def _checked(path: str) -> str:
    """The path, quoted again from what the server decoded; dots could leave `/v1/`."""
    segments = path.split("/")
    if "\\" in path or any(s in (".", "..") for s in segments):
        raise NotFound(f"no such path: /v1/{path}")
    return "/".join(quote(segment, safe="") for segment in segments)


def _checked_body(path: str, raw: bytes, tenant: Tenant) -> tuple[bytes, bool]:
    """The body, and whether it asks for a stream.

    What generates gets the tenant's cache salt and cannot address the connector.
    """
    if not raw or path.split("/")[0] not in _GENERATING:
        return raw, False
    try:
        body: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        return raw, False
    if "memory" in body:
        raise InvalidInput(
            f"/v1/{path} does not take memory; /v1/chat/completions, /v1/completions, "
            "/v1/responses and /v1/messages do",
            param="memory",
        )
    refuse_reserved(body)
    salted = {**body, "cache_salt": cache_salt(tenant, own_salt(body))}
    return json.dumps(salted).encode(), bool(body.get("stream"))
