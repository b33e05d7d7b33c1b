"""The tools of the MCP server: add, search, list, update and delete memories of one scope.

Owns what the tools take and give. Invariants: whose memory it is was decided when the server was
made, never by an argument that a model writes; other scopes' memories do not exist for it. Results
are text that the model reads: MCP has no way to attach a handle, so nothing is injected here.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from inferscale import AsyncMemory, InferScaleError, InvalidArgumentError, __version__

_IDS = ("user_id", "agent_id", "run_id")
_INSTRUCTIONS = (
    "Long-term memory of the user. Search it before answering questions about the user or earlier "
    "conversations; store lasting facts, one at a time."
)


class Found(BaseModel):
    """One memory."""

    id: str
    memory: str
    created_at: str
    score: float | None = None


class FoundList(BaseModel):
    """Memories; `next_cursor` leads to more of a list."""

    memories: list[Found]
    next_cursor: str | None = None


class Written(BaseModel):
    """What became of a memory: ADD, NOOP (it was known), UPDATE or DELETE."""

    id: str
    event: str


def create_server(memory: AsyncMemory, scope: Mapping[str, str]) -> MCPServer:
    """A server for the memory of one user, agent or run.

    Args:
        memory: the client; it stays open.
        scope: `user_id`, `agent_id` and `run_id`, at least one.

    Raises:
        InvalidArgumentError: no id, or an unknown one.
    """
    if not scope or set(scope) - set(_IDS):
        raise InvalidArgumentError(f"scope is {dict(scope)}; it needs some of {', '.join(_IDS)}.")
    server = MCPServer("inferscale", instructions=_INSTRUCTIONS, version=__version__)
    _Tools(memory, dict(scope)).register(server)
    return server


class _Tools:
    """The tools. Their docstrings are what the model reads."""

    def __init__(self, memory: AsyncMemory, scope: dict[str, str]) -> None:
        self._memory = memory
        self._scope: dict[str, Any] = scope

    def register(self, server: MCPServer) -> None:
        """Adds them to a server."""
        reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        adds = ToolAnnotations(destructive_hint=False, open_world_hint=False)
        changes = ToolAnnotations(destructive_hint=True, open_world_hint=False)
        for tool, annotations in (
            (self.search_memories, reads),
            (self.list_memories, reads),
            (self.add_memory, adds),
            (self.update_memory, changes),
            (self.delete_memory, changes),
        ):
            server.tool(annotations=annotations)(_explained(tool))

    async def search_memories(
        self, query: str, limit: Annotated[int, Field(ge=1, le=50)] = 5
    ) -> FoundList:
        """Search what is known about the user, by meaning. Best first."""
        result = await self._memory.search(query, limit=limit, **self._scope)
        return FoundList(memories=[_found(hit, hit.score) for hit in result.results])

    async def list_memories(
        self, limit: Annotated[int, Field(ge=1, le=100)] = 20, cursor: str | None = None
    ) -> FoundList:
        """List memories, newest first. Pass next_cursor of one page to get the next."""
        page = await self._memory.get_all(limit=limit, cursor=cursor, **self._scope)
        found = [_found(record) for record in page.results]
        return FoundList(memories=found, next_cursor=page.next_cursor)

    async def add_memory(self, text: str) -> Written:
        """Remember one lasting fact about the user, as a complete sentence."""
        result = await self._memory.add(text, infer=False, **self._scope)
        if not result.results:
            raise ToolError("The text is blank; there is nothing to remember.")
        return Written(id=result.results[0].id, event=result.results[0].event)

    async def update_memory(self, memory_id: str, text: str) -> Written:
        """Replace the text of a memory that has changed. Search first for its id."""
        await self._need(memory_id)
        await self._memory.update(memory_id, text)
        return Written(id=memory_id, event="UPDATE")

    async def delete_memory(self, memory_id: str) -> Written:
        """Forget a memory for good. Search first for its id."""
        await self._need(memory_id)
        await self._memory.delete(memory_id)
        return Written(id=memory_id, event="DELETE")

    async def _need(self, memory_id: str) -> None:
        """Raises unless the memory is of this scope: ids are the tenant's, not the user's."""
        record = await self._memory.get(memory_id)
        if record is None or any(record[name] != value for name, value in self._scope.items()):
            raise ToolError("There is no such memory; search for its id first.")


def _explained(tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The tool with errors that the model can read; others would be hidden from it as accidents."""

    @functools.wraps(tool)
    async def run(*args: Any, **arguments: Any) -> Any:
        try:
            return await tool(*args, **arguments)
        except InferScaleError as error:
            raise ToolError(str(error)) from error

    return run


def _found(record: Any, score: float | None = None) -> Found:
    return Found(id=record.id, memory=record.memory, created_at=record["created_at"], score=score)
