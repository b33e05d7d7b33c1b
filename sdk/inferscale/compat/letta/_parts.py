"""Letta's sub-clients: their methods, and reasons for those that are missing."""

from collections.abc import Mapping
from typing import Any

from inferscale import AsyncMemory, Memory
from inferscale.compat._flow import awaiting, blocking
from inferscale.compat._refuse import Absent
from inferscale.compat.letta._block_calls import AgentBlockCalls, BlockAgentCalls, BlockCalls
from inferscale.compat.letta._calls import AgentPassageCalls, PassageCalls

_ARCHIVES = "an agent has one archive, its memories; use agents.passages with an agent_id"
_AGENTS = "agents run elsewhere; any agent_id names one's memories"
_REASONS: Mapping[str, str] = {
    "archives": _ARCHIVES,
    "agents.archives": _ARCHIVES,
    "agents.messages": "agents run elsewhere; use client.inferscale.chat(messages, agent_id=…)",
}


class Part:
    """A place for methods. What Letta has here and this has not raises when it is called."""

    def __init__(self, path: str, client: Any) -> None:
        self._path = path
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{self._path}.{name}".lstrip(".")
        return Absent(path, _REASONS.get(path, _AGENTS))


class AgentPassages(Part):
    """`client.agents.passages`, blocking."""

    create = blocking(AgentPassageCalls.create)
    search = blocking(AgentPassageCalls.search)
    delete = blocking(AgentPassageCalls.delete)
    list = blocking(AgentPassageCalls.list_)


class Passages(Part):
    """`client.passages`, blocking."""

    search = blocking(PassageCalls.search)


class AgentBlocks(Part):
    """`client.agents.blocks`, blocking."""

    retrieve = blocking(AgentBlockCalls.retrieve)
    update = blocking(AgentBlockCalls.update)
    attach = blocking(AgentBlockCalls.attach)
    detach = blocking(AgentBlockCalls.detach)
    list = blocking(AgentBlockCalls.list_)


class BlockAgents(Part):
    """`client.blocks.agents`, blocking."""

    list = blocking(BlockAgentCalls.list_)


class Blocks(Part):
    """`client.blocks`, blocking."""

    def __init__(self, client: Memory) -> None:
        super().__init__("blocks", client)
        self.agents = BlockAgents("blocks.agents", client)

    create = blocking(BlockCalls.create)
    retrieve = blocking(BlockCalls.retrieve)
    update = blocking(BlockCalls.update)
    delete = blocking(BlockCalls.delete)
    list = blocking(BlockCalls.list_)


class AsyncAgentPassages(Part):
    """`client.agents.passages`, awaiting."""

    create = awaiting(AgentPassageCalls.create)
    search = awaiting(AgentPassageCalls.search)
    delete = awaiting(AgentPassageCalls.delete)
    list = awaiting(AgentPassageCalls.list_)


class AsyncPassages(Part):
    """`client.passages`, awaiting."""

    search = awaiting(PassageCalls.search)


class AsyncAgentBlocks(Part):
    """`client.agents.blocks`, awaiting."""

    retrieve = awaiting(AgentBlockCalls.retrieve)
    update = awaiting(AgentBlockCalls.update)
    attach = awaiting(AgentBlockCalls.attach)
    detach = awaiting(AgentBlockCalls.detach)
    list = awaiting(AgentBlockCalls.list_)


class AsyncBlockAgents(Part):
    """`client.blocks.agents`, awaiting."""

    list = awaiting(BlockAgentCalls.list_)


class AsyncBlocks(Part):
    """`client.blocks`, awaiting."""

    def __init__(self, client: AsyncMemory) -> None:
        super().__init__("blocks", client)
        self.agents = AsyncBlockAgents("blocks.agents", client)

    create = awaiting(BlockCalls.create)
    retrieve = awaiting(BlockCalls.retrieve)
    update = awaiting(BlockCalls.update)
    delete = awaiting(BlockCalls.delete)
    list = awaiting(BlockCalls.list_)


class Agents(Part):
    """`client.agents`, blocking."""

    def __init__(self, client: Memory) -> None:
        super().__init__("agents", client)
        self.passages = AgentPassages("agents.passages", client)
        self.blocks = AgentBlocks("agents.blocks", client)


class AsyncAgents(Part):
    """`client.agents`, awaiting."""

    def __init__(self, client: AsyncMemory) -> None:
        super().__init__("agents", client)
        self.passages = AsyncAgentPassages("agents.passages", client)
        self.blocks = AsyncAgentBlocks("agents.blocks", client)
