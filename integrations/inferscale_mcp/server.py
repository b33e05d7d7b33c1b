"""The tools of the MCP server: add, search, list, update and delete memories of one scope.

Owns what the tools take and give. Invariants: whose memory it is was decided outside of what a
model writes, by the process's settings or the request's headers; other scopes' memories do not
exist. Results are text that the model reads: MCP has no way to attach a handle, so nothing is
injected here.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from inferscale import (
    SCOPE_IDS,
    AsyncMemory,
    InferScaleError,
    InvalidArgumentError,
    __version__,
)

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


@dataclass(frozen=True)
class Caller:
    """Who calls: a client that acts with their rights, and whose memory it is."""

    memory: AsyncMemory
    scope: Mapping[str, str]


Identify = Callable[[Any], Caller]
"""From a request's `Context` to its caller. Raises ToolError if it names nobody."""


def create_server(memory: AsyncMemory, scope: Mapping[str, str]) -> MCPServer:
    """A server for the memory of one user, agent, run or app.

    Args:
        memory: the client; it stays open.
        scope: `user_id`, `agent_id`, `run_id` and `app_id`, at least one.

    Raises:
        InvalidArgumentError: no id, or an unknown one.
    """
    if not scope or set(scope) - set(SCOPE_IDS):
        raise InvalidArgumentError(
            f"scope is {dict(scope)}; it needs some of {', '.join(SCOPE_IDS)}."
        )
    caller = Caller(memory, dict(scope))
    return serve_callers(lambda _: caller)


def serve_callers(identify: Identify) -> MCPServer:
    """A server for many: each call is its caller's.

    Args:
        identify: see `Identify`.
    """
    server = MCPServer(
        "inferscale", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    _Tools(identify).register(server)
    return server


class _Tools:
    """The tools. Their docstrings are what the model reads."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify

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
        self, ctx: Context, query: str, limit: Annotated[int, Field(ge=1, le=50)] = 5
    ) -> FoundList:
        """Search what is known about the user, by meaning. Best first."""
        caller = self._identify(ctx)
        result = await caller.memory.search(query, limit=limit, **_ids(caller))
        return FoundList(memories=[_found(hit, hit.score) for hit in result.results])

    async def list_memories(
        self,
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
        cursor: str | None = None,
    ) -> FoundList:
        """List memories, newest first. Pass next_cursor of one page to get the next."""
        caller = self._identify(ctx)
        page = await caller.memory.get_all(limit=limit, cursor=cursor, **_ids(caller))
        found = [_found(record) for record in page.results]
        return FoundList(memories=found, next_cursor=page.next_cursor)

    async def add_memory(self, ctx: Context, text: str) -> Written:
        """Remember one lasting fact about the user, as a complete sentence."""
        caller = self._identify(ctx)
        result = await caller.memory.add(text, infer=False, **_ids(caller))
        if not result.results:
            raise ToolError("The text is blank; there is nothing to remember.")
        return Written(id=result.results[0].id, event=result.results[0].event)

    async def update_memory(self, ctx: Context, memory_id: str, text: str) -> Written:
        """Replace the text of a memory that has changed. Search first for its id."""
        caller = await self._owner_of(memory_id, ctx)
        await caller.memory.update(memory_id, text)
        return Written(id=memory_id, event="UPDATE")

    async def delete_memory(self, ctx: Context, memory_id: str) -> Written:
        """Forget a memory for good. Search first for its id."""
        caller = await self._owner_of(memory_id, ctx)
        await caller.memory.delete(memory_id)
        return Written(id=memory_id, event="DELETE")

    async def _owner_of(self, memory_id: str, ctx: Context) -> Caller:
        """The caller, if the memory is of their scope: ids are the tenant's, not the user's."""
        caller = self._identify(ctx)
        record = await caller.memory.get(memory_id)
        if record is None or any(record[name] != value for name, value in caller.scope.items()):
            raise ToolError("There is no such memory; search for its id first.")
        return caller


def _ids(caller: Caller) -> dict[str, Any]:
    return dict(caller.scope)


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
