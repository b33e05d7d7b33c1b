"""`/mcp` of the sidecar, with the real client: identity by header, keys, tenants, odd requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is missing: integrations/run_tests.sh")

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from inferscale import SCOPE_IDS, Memory

FACT = "My sister Maya keeps bees in Oslo"
USER = "X-InferScale-User-Id"
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def connected(url: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with create_mcp_http_client(names) as http_client:
        transport = streamable_http_client(f"{url}/mcp", http_client=http_client)
        async with Client(transport, mode=mode) as client:
            yield client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    """The structured result of a tool; the text of an error."""
    result = await client.call_tool(name, arguments)
    return result.content[0].text if result.is_error else result.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_memory_from_birth_to_death(sidecar, memory: Memory, user, mode):
    """In the protocol of 2026, and in the handshake of those before it."""
    async with connected(sidecar.url, mode, **{USER: user}) as client:
        made = await call(client, "add_memory", text=FACT)
        assert made["event"] == "ADD"
        assert (await call(client, "add_memory", text=FACT))["event"] == "NOOP"
        (hit,) = (await call(client, "search_memories", query="sister bees"))["memories"]
        assert (hit["id"], hit["memory"]) == (made["id"], FACT)
        await call(client, "update_memory", memory_id=made["id"], text="Maya moved to Bergen")
        (row,) = (await call(client, "list_memories"))["memories"]
        assert row["memory"] == "Maya moved to Bergen"
        record = memory.get(made["id"])
        assert record is not None
        assert record.user_id == user
        assert (await call(client, "delete_memory", memory_id=made["id"]))["event"] == "DELETE"
    assert memory.get(made["id"]) is None


async def test_no_tool_asks_for_an_identity(sidecar, user):
    async with connected(sidecar.url, **{USER: user}) as client:
        for tool in (await client.list_tools()).tools:
            assert not {*SCOPE_IDS, "ctx"} & set(tool.input_schema["properties"])


async def test_each_request_is_its_callers(sidecar, memory: Memory, user):
    theirs = memory.add(FACT, user_id=f"{user}-other").results[0].id
    async with (
        connected(sidecar.url, **{USER: user}) as client,
        connected(sidecar.url, **{USER: f"{user}-other"}) as other,
    ):
        for _ in range(3):
            assert (await call(client, "list_memories"))["memories"] == []
            assert len((await call(other, "list_memories"))["memories"]) == 1
        assert "no such memory" in await call(client, "delete_memory", memory_id=theirs)
        assert "no such memory" in await call(
            client, "update_memory", memory_id=theirs, text="mine now"
        )
    assert memory.get(theirs).memory == FACT


async def test_ids_are_anded_and_may_be_any(sidecar, memory: Memory, user):
    memory.add("said to the cook", user_id=user, agent_id="cook")
    memory.add("said to the tailor", user_id=user, agent_id="tailor")
    headers = {USER: user, "X-InferScale-Agent-Id": "cook"}
    async with connected(sidecar.url, **headers) as client:
        found = (await call(client, "list_memories"))["memories"]
        assert [each["memory"] for each in found] == ["said to the cook"]
    mine = memory.add("said in the shop", user_id=user, app_id="shop").results[0].id
    async with connected(sidecar.url, **{USER: user, "X-InferScale-App-Id": "mail"}) as client:
        assert (await call(client, "list_memories"))["memories"] == []
        assert "no such memory" in await call(client, "delete_memory", memory_id=mine)
    async with connected(sidecar.url, **{USER: user, "X-InferScale-App-Id": "shop"}) as client:
        (found,) = (await call(client, "list_memories"))["memories"]
        assert found["memory"] == "said in the shop"


async def test_without_a_user_tools_say_what_is_missing(sidecar):
    async with connected(sidecar.url) as client:
        assert len((await client.list_tools()).tools) == 5
        assert USER in await call(client, "list_memories")


@pytest.mark.parametrize("value", ["*", "", "two words"])
def test_an_id_that_is_none_is_a_400(sidecar, value):
    answer = httpx.post(f"{sidecar.url}/mcp", json=PING, headers={**JSON, USER: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == USER.lower()


def test_a_header_given_twice_is_a_400(sidecar):
    headers = [*JSON.items(), (USER, "alice"), (USER, "bob")]
    assert httpx.post(f"{sidecar.url}/mcp", json=PING, headers=headers).status_code == 400


async def test_an_id_in_any_script(sidecar, memory: Memory, user):
    memory.add(FACT, user_id=f"{user}-Зоя-ë")
    body = {"name": "list_memories", "arguments": {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}
    headers = {n.encode(): v.encode() for n, v in {**JSON, USER: f"{user}-Зоя-ë"}.items()}
    answer = httpx.post(f"{sidecar.url}/mcp", json=request, headers=headers)
    assert len(answer.json()["result"]["structuredContent"]["memories"]) == 1


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_sessions_to_open_or_end(sidecar, method):
    answer = httpx.request(method, f"{sidecar.url}/mcp", headers=JSON)
    assert answer.status_code == 405


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_a_page_that_was_pointed_here_is_refused(sidecar, headers):
    answer = httpx.post(f"{sidecar.url}/mcp", json=PING, headers={**JSON, **headers})
    assert answer.status_code in (401, 403, 421)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": 5}'])
def test_what_is_no_message_is_an_error_of_the_client(sidecar, body):
    answer = httpx.post(f"{sidecar.url}/mcp", content=body, headers=JSON)
    assert 400 <= answer.status_code < 500


class TestKeys:
    def test_without_a_key_or_with_a_wrong_one(self, keyed):
        for headers in ({}, {"authorization": "Bearer isk_wrong"}, {"authorization": "Basic x"}):
            answer = httpx.post(f"{keyed.url}/mcp", json=PING, headers={**JSON, **headers})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"

    async def test_a_tool_may_what_its_callers_key_may(self, keyed, user):
        """Not what the key in the sidecar's own environment may."""
        mine, reader = (
            {USER: user, "Authorization": f"Bearer {k}"} for k in (keyed.mine, keyed.reader)
        )
        async with connected(keyed.url, **mine) as client, connected(keyed.url, **reader) as other:
            await call(client, "add_memory", text=FACT)
            assert len((await call(other, "list_memories"))["memories"]) == 1
            assert "scope" in await call(other, "add_memory", text="more")
            assert len((await call(client, "list_memories"))["memories"]) == 1

    async def test_equal_users_of_two_tenants_do_not_meet(self, keyed, user):
        mine, other = ({USER: user, "X-API-Key": key} for key in (keyed.mine, keyed.other))
        async with (
            connected(keyed.url, **mine) as client,
            connected(keyed.url, **other) as stranger,
        ):
            made = await call(client, "add_memory", text=FACT)
            assert (await call(stranger, "list_memories"))["memories"] == []
            assert "no such memory" in await call(stranger, "delete_memory", memory_id=made["id"])
