"""The MCP server against the real application: in memory, and as a process over stdio."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is missing: integrations/run_tests.sh")

from mcp import Client, StdioServerParameters, stdio_client

from inferscale import SCOPE_IDS, AsyncMemory, InvalidArgumentError, Memory
from inferscale_mcp import create_server

FACT = "My sister Maya keeps bees in Oslo"
ENV = {"PYTHONPATH": os.pathsep.join(sys.path)}
"""Of server processes: the same packages as here, and no identity."""
Connect = Callable[[], AbstractAsyncContextManager[Client]]
TOOLS = {"add_memory", "delete_memory", "list_memories", "search_memories", "update_memory"}


@pytest.fixture
def connect(sidecar: Any, user: str) -> Connect:
    """`async with connect() as client`: a fixture may not hold it, for it is bound to one task."""

    @asynccontextmanager
    async def open_client() -> AsyncIterator[Client]:
        async with (
            AsyncMemory(sidecar.url) as memory,
            Client(create_server(memory, {"user_id": user})) as client,
        ):
            yield client

    return open_client


async def call(client: Client, name: str, **arguments: Any) -> Any:
    """The structured result of a tool; the text of an error."""
    result = await client.call_tool(name, arguments)
    return result.content[0].text if result.is_error else result.structured_content


async def test_tools_say_what_they_do_and_ask_for_no_identity(connect):
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for tool in tools.values():
            assert tool.description
            assert tool.output_schema
            assert not set(SCOPE_IDS) & set(tool.input_schema["properties"])
        assert tools["search_memories"].annotations.read_only_hint
        assert tools["delete_memory"].annotations.destructive_hint


async def test_a_memory_from_birth_to_death(connect, memory, user):
    async with connect() as client:
        added = await call(client, "add_memory", text=FACT)
        assert added["event"] == "ADD"
        assert (await call(client, "add_memory", text=FACT)) == {**added, "event": "NOOP"}
        (hit,) = (await call(client, "search_memories", query="sister"))["memories"]
        assert (hit["id"], hit["memory"]) == (added["id"], FACT)
        await call(client, "update_memory", memory_id=hit["id"], text="Maya keeps goats")
        (listed,) = (await call(client, "list_memories"))["memories"]
        assert listed["memory"] == "Maya keeps goats"
        await call(client, "delete_memory", memory_id=hit["id"])
        assert memory.get_all(user_id=user).results == []


async def test_pages(connect, memory, user):
    async with connect() as client:
        memory.add([{"role": "user", "content": f"fact {n}"} for n in range(5)], user_id=user)
        seen, cursor = [], None
        for _ in range(3):
            page = await call(client, "list_memories", limit=2, cursor=cursor)
            seen += [found["memory"] for found in page["memories"]]
            cursor = page["next_cursor"]
        assert cursor is None
        assert sorted(seen) == [f"fact {n}" for n in range(5)]


@pytest.mark.parametrize("name", ["update_memory", "delete_memory"])
async def test_memories_of_other_users_do_not_exist(connect, memory, user, name):
    async with connect() as client:
        foreign = memory.add(FACT, user_id=f"{user}-other").results[0].id
        more = {"text": "x"} if name == "update_memory" else {}
        answer = await call(client, name, memory_id=foreign, **more)
        assert "no such memory" in answer
        assert answer == await call(client, name, memory_id="unknown", **more)
        assert memory.get(foreign).memory == FACT
        assert (await call(client, "search_memories", query="sister"))["memories"] == []


async def test_bad_arguments_are_results_not_crashes(connect):
    async with connect() as client:
        assert "limit" in await call(client, "search_memories", query="x", limit=1000)
        assert "blank" in await call(client, "add_memory", text=" ")
        assert (await call(client, "list_memories"))["memories"] == []


async def test_over_stdio(sidecar, memory: Memory, user):
    memory.add(FACT, user_id=user)
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "inferscale_mcp", "--user-id", user, "--base-url", sidecar.url],
        env=ENV,
    )
    async with Client(stdio_client(command)) as client:
        (hit,) = (await call(client, "search_memories", query="sister"))["memories"]
    assert hit["memory"] == FACT


async def test_by_the_sidecars_command(sidecar, sidecar_python, memory: Memory, user):
    memory.add(FACT, user_id=user)
    words = ["mcp", "--user-id", user, "--url", sidecar.url]
    command = StdioServerParameters(
        command=str(sidecar_python), args=["-m", "inferscale_sidecar.cli", *words], env=ENV
    )
    async with Client(stdio_client(command)) as client:
        (hit,) = (await call(client, "search_memories", query="sister"))["memories"]
    assert hit["memory"] == FACT


def test_without_a_user_it_does_not_start():
    command = [sys.executable, "-m", "inferscale_mcp"]
    run = subprocess.run(command, capture_output=True, text=True, env=ENV)
    assert run.returncode == 2
    assert "--user-id" in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize("scope", [{}, {"name": "alice"}])
def test_a_server_needs_a_scope(sidecar, scope):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        create_server(AsyncMemory(sidecar.url), scope)
