"""Memory tools for agents: search, add, delete.

Owns what the model may ask for. Invariants: whose memory it is comes from the constructor or the
run's context, never from an argument that the model writes; a memory of another scope can neither
be read nor deleted.
"""

import json
from typing import Annotated, Any

from langchain_core.tools import BaseTool
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from inferscale import AsyncMemory, InvalidRequestError, Memory, NotFoundError
from inferscale_langchain._scope import ScopeSource, read_scope
from inferscale_shared.clients import Clients


class SearchArguments(BaseModel):
    """What the model writes to search."""

    query: Annotated[str, Field(description="What to look for, in a few words.")]
    limit: Annotated[int, Field(ge=1, le=50, description="At most so many memories.")] = 5


class AddArguments(BaseModel):
    """What the model writes to remember."""

    text: Annotated[str, Field(description="One fact, as a complete sentence.")]


class DeleteArguments(BaseModel):
    """What the model writes to forget."""

    memory_id: Annotated[str, Field(description="The id of a memory, as search gave it.")]


class MemoryTool(BaseTool):
    """Base of the tools: the clients, and whose memory.

    Args:
        memory, async_memory, scope: as in `InferScaleMiddleware`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory | None = Field(default=None, exclude=True)
    async_memory: AsyncMemory | None = Field(default=None, exclude=True)
    scope: Any = Field(default=None, exclude=True)
    _clients: Clients = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Opens the clients."""
        super().model_post_init(context)
        self._clients = Clients(self.memory, self.async_memory)

    def _ids(self) -> dict[str, str]:
        """The scope of this run. Raises InvalidArgumentError if there is none."""
        fixed = self.scope is not None and not callable(self.scope)
        return read_scope(self.scope, None if fixed else _context())


class SearchMemoriesTool(MemoryTool):
    """Finds memories by meaning."""

    name: str = "search_memories"
    description: str = "Search what is known about the user from earlier conversations, by meaning."
    args_schema: Any = SearchArguments

    def _run(self, query: str, limit: int = 5) -> str:
        return _found(self._clients.call("search", query, limit=limit, **self._ids()))

    async def _arun(self, query: str, limit: int = 5) -> str:
        return _found(await self._clients.acall("search", query, limit=limit, **self._ids()))


class AddMemoryTool(MemoryTool):
    """Stores one fact."""

    name: str = "add_memory"
    description: str = "Remember one lasting fact about the user for later conversations."
    args_schema: Any = AddArguments

    def _run(self, text: str) -> str:
        return _added(self._clients.call("add", text, infer=False, **self._ids()))

    async def _arun(self, text: str) -> str:
        return _added(await self._clients.acall("add", text, infer=False, **self._ids()))


class DeleteMemoryTool(MemoryTool):
    """Forgets one memory of this scope."""

    name: str = "delete_memory"
    description: str = "Forget one memory, by its id. Search first; delete only what is wrong."
    args_schema: Any = DeleteArguments

    def _run(self, memory_id: str) -> str:
        ids = self._ids()
        try:
            # Ids are the tenant's, not the user's: whose it is must be looked up first.
            if _is_in(self._clients.call("get", memory_id), ids):
                self._clients.call("delete", memory_id)
                return "Deleted."
        except (NotFoundError, InvalidRequestError):
            pass
        return _UNKNOWN

    async def _arun(self, memory_id: str) -> str:
        ids = self._ids()
        try:
            if _is_in(await self._clients.acall("get", memory_id), ids):
                await self._clients.acall("delete", memory_id)
                return "Deleted."
        except (NotFoundError, InvalidRequestError):
            pass
        return _UNKNOWN


def create_memory_tools(
    memory: Memory | None = None,
    *,
    async_memory: AsyncMemory | None = None,
    scope: ScopeSource = None,
    can_write: bool = False,
) -> list[BaseTool]:
    """Tools for `create_agent(tools=…)`.

    Args:
        memory, async_memory, scope: as in `InferScaleMiddleware`.
        can_write: with tools that add and delete too. Off by default: what a model reads on a web
            page may talk it into remembering.
    """
    kinds = [SearchMemoriesTool, *([AddMemoryTool, DeleteMemoryTool] if can_write else [])]
    return [kind(memory=memory, async_memory=async_memory, scope=scope) for kind in kinds]


_UNKNOWN = "There is no such memory."


def _context() -> Any:
    """The context of the run that calls the tool; None outside of one."""
    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):
        return None
    return getattr(runtime, "context", None)


def _is_in(record: Any, ids: dict[str, str]) -> bool:
    return record is not None and all(record[name] == value for name, value in ids.items())


def _found(result: Any) -> str:
    rows = [{"id": hit.id, "memory": hit.memory} for hit in result.results]
    return json.dumps(rows, ensure_ascii=False) if rows else "Nothing is known about that."


def _added(result: Any) -> str:
    return (
        f"Remembered under the id {result.results[0].id}." if result.results else "Nothing to do."
    )
