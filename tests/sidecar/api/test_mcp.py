"""The way to the MCP server and back into the API: who calls, and with whose rights."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from inferscale_sidecar.api.mcp import MCP_PATH, mcp_route

USER = {"x-inferscale-user-id": "alice"}


class OneCall:
    """Answers with what one request to the API gives, as a tool would make it."""

    def __init__(self, **headers: str) -> None:
        self.ids: Mapping[str, str] = {}
        self._headers = headers

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    async def serve(
        self, scope: Any, receive: Any, send: Any, *, http_client: Any, ids: Mapping[str, str]
    ) -> None:
        self.ids = ids
        url = "http://inside/v1/memories?user_id=alice"
        answer = await http_client.get(url, headers=self._headers)
        await JSONResponse(answer.json(), answer.status_code)(scope, receive, send)


@asynccontextmanager
async def client_of(app: Any, route: Any, peer: str = "127.0.0.1") -> AsyncIterator[Any]:
    app.router.routes.append(route)
    transport = httpx.ASGITransport(app, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420") as client:
        yield client


async def test_a_tool_acts_with_the_rights_of_its_caller(create: Any, world: Any) -> None:
    secret, _ = await world.tenants.create_key(world.tenant.id, name="k", scopes=["read"])
    server = OneCall(authorization="Bearer isk_of_the_process", host="127.0.0.1")
    async with client_of(create(), mcp_route(server)) as client:
        headers = {"authorization": f"Bearer {secret}", **USER}
        assert (await client.post(MCP_PATH, headers=headers)).status_code == 200
        assert server.ids == {"user_id": "alice"}
        assert (await client.post(MCP_PATH, headers=USER)).status_code == 401


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("10.0.0.9", {}, 401),
        ("127.0.0.1", {"host": "evil.example"}, 401),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.9"}, 401),
        ("127.0.0.1", {"sec-fetch-site": "cross-site"}, 401),
    ],
)
async def test_who_needs_no_key_needs_none_for_tools(
    create: Any, peer: str, headers: dict[str, str], status: int
) -> None:
    async with client_of(create(), mcp_route(OneCall()), peer) as client:
        assert (await client.post(MCP_PATH, headers=headers)).status_code == status


async def test_the_setting_says_whose_memory(create: Any) -> None:
    server = OneCall()
    async with client_of(create(), mcp_route(server, user_id="bob")) as client:
        assert (await client.post(MCP_PATH)).status_code == 200
        assert server.ids == {"user_id": "bob"}
        refused = await client.post(MCP_PATH, headers=USER)
        assert refused.status_code == 400
        assert "mcp.user_id" in refused.json()["error"]["message"]


async def test_without_the_package_it_says_what_to_install(create: Any) -> None:
    async with client_of(create(), mcp_route(None)) as client:
        answer = await client.post(MCP_PATH)
    assert answer.status_code == 501
    assert "inferscale-memory[mcp]" in answer.json()["error"]["message"]
