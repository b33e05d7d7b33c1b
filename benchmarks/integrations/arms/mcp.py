"""MCP: a tool called by a client in the same process, against the SDK's own call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.integrations.arms import Arms
from mcp import Client

from inferscale import AsyncMemory
from inferscale_mcp import create_server


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`. There is no model: a call is a search, or an addition."""
    scope = {"user_id": user}
    async with AsyncMemory(url) as memory, Client(create_server(memory, scope)) as client:

        async def found(text: str) -> None:
            result = await client.call_tool("search_memories", {"query": text, "limit": 20})
            assert not result.is_error, result.content

        async def added(text: str) -> None:
            result = await client.call_tool("add_memory", {"text": text})
            assert not result.is_error, result.content

        yield Arms(
            by_hand=lambda text: memory.search(text, user_id=user, limit=20),
            attached=found,
            remembered=added,
        )
