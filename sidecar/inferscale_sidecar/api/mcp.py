"""`/mcp`: authenticates, and hands the request to the MCP server with its caller's rights.

Owns who calls, and the way from a tool back into the API. Does not own the protocol, which is
`inferscale_mcp`'s. Invariant: a tool can do what its caller's own request could do, and no more:
each of its requests carries the caller's key and comes from the caller's address.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from inferscale_sidecar.api.auth import EVIDENCE, known_tenant
from inferscale_sidecar.api.identity import ID_HEADERS, named_ids
from inferscale_sidecar.errors import InvalidInput, Unsupported

MCP_PATH = "/mcp"
_TIMEOUT_S = 60.0


class McpServer(Protocol):
    """Speaks the protocol; `inferscale_mcp.HttpServer`."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """The block within which it serves; to be entered once."""

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        http_client: httpx.AsyncClient,
        ids: Mapping[str, str],
    ) -> None:
        """Answer one request, with tools that use `http_client` for the memory of `ids`."""


def mcp_route(server: McpServer | None, *, user_id: str = "") -> Route:
    """The route `/mcp`.

    Args:
        server: None if the package mcp is not installed.
        user_id: whose memory, for all callers; "" leaves it to their headers.
    """
    return Route(MCP_PATH, _Endpoint(server, user_id), methods=["POST"])


class _Endpoint:
    def __init__(self, server: McpServer | None, user_id: str) -> None:
        self._server, self._user_id = server, user_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await known_tenant(request)
        if self._server is None:
            raise Unsupported(
                "this sidecar cannot serve MCP: the package mcp 2.2 or newer is missing; "
                "pip install 'inferscale-memory[mcp]'"
            )
        ids = self._ids(request)
        transport = _AsCaller(request.app, request)
        async with httpx.AsyncClient(transport=transport, timeout=_TIMEOUT_S) as client:
            await self._server.serve(scope, receive, send, http_client=client, ids=ids)

    def _ids(self, request: Request) -> dict[str, str]:
        ids = named_ids(request.headers)
        if not self._user_id:
            return ids
        if ids.get("user_id", self._user_id) != self._user_id:
            raise InvalidInput(
                f"this server's setting mcp.user_id says whose memory it is; do not send the "
                f"header {ID_HEADERS['user_id']}",
                param=ID_HEADERS["user_id"],
            )
        return {**ids, "user_id": self._user_id}


class _AsCaller(httpx.AsyncBaseTransport):
    """The API itself, without a socket, as the caller of `request` would reach it."""

    def __init__(self, app: ASGIApp, request: Request) -> None:
        peer = (request.client.host, request.client.port) if request.client else ("", 0)
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False, client=peer)
        self._evidence = [
            (name, value) for name, value in request.headers.items() if name in EVIDENCE
        ]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # What the client library put there, from this process's environment perhaps, goes.
        kept = [(n, v) for n, v in request.headers.multi_items() if n.lower() not in EVIDENCE]
        request.headers = httpx.Headers([*kept, *self._evidence])
        return await self._inner.handle_async_request(request)
