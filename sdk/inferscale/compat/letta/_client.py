"""`Letta` and `AsyncLetta`: passages over one client of the SDK, the rest refused with reasons."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import AsyncMemory, Memory
from inferscale.compat._flow import awaiting, blocking
from inferscale.compat._refuse import Absent, foreign, refuse_given
from inferscale.compat.letta._calls import AgentPassageCalls, PassageCalls

_BLOCKS = (
    "a block is always in the prompt, a memory only when it is recalled; keep blocks in your "
    "system message, and passages here"
)
_ARCHIVES = "an agent has one archive, its memories; use agents.passages with an agent_id"
_AGENTS = "agents run elsewhere; any agent_id names one's memories"
_REASONS: Mapping[str, str] = {
    "blocks": _BLOCKS,
    "agents.blocks": _BLOCKS,
    "archives": _ARCHIVES,
    "agents.archives": _ARCHIVES,
    "agents.messages": "agents run elsewhere; use client.inferscale.chat(messages, agent_id=…)",
}
_CLOUD = {
    "base_url": "that is Letta's own service; pass the sidecar's address, or leave it out",
    "project": "the API key alone says whose memories these are",
    "project_id": "the API key alone says whose memories these are",
    "environment": "there is one sidecar; pass its address as base_url",
}


class _Part:
    """A place for methods. What Letta has here and this has not raises when it is called."""

    def __init__(self, path: str, client: Any) -> None:
        self._path = path
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{self._path}.{name}".lstrip(".")
        return Absent(path, _REASONS.get(path, _AGENTS))


class AgentPassages(_Part):
    """`client.agents.passages`, blocking."""

    create = blocking(AgentPassageCalls.create)
    search = blocking(AgentPassageCalls.search)
    delete = blocking(AgentPassageCalls.delete)
    list = blocking(AgentPassageCalls.list_)


class Passages(_Part):
    """`client.passages`, blocking."""

    search = blocking(PassageCalls.search)


class AsyncAgentPassages(_Part):
    """`client.agents.passages`, awaiting."""

    create = awaiting(AgentPassageCalls.create)
    search = awaiting(AgentPassageCalls.search)
    delete = awaiting(AgentPassageCalls.delete)
    list = awaiting(AgentPassageCalls.list_)


class AsyncPassages(_Part):
    """`client.passages`, awaiting."""

    search = awaiting(PassageCalls.search)


class Agents(_Part):
    """`client.agents`, blocking."""

    def __init__(self, client: Memory) -> None:
        super().__init__("agents", client)
        self.passages = AgentPassages("agents.passages", client)


class AsyncAgents(_Part):
    """`client.agents`, awaiting."""

    def __init__(self, client: AsyncMemory) -> None:
        super().__init__("agents", client)
        self.passages = AsyncAgentPassages("agents.passages", client)


def _settings(
    api_key: str | None,
    base_url: str | None,
    timeout: float | None,
    max_retries: int | None,
    cloud: Mapping[str, Any],
) -> dict[str, Any]:
    for name in cloud:
        if name not in _CLOUD:
            raise TypeError(f"Letta() got an unexpected keyword argument {name!r}")
    refuse_given("Letta", _CLOUD, {**cloud, "base_url": foreign(base_url, "letta.com")})
    given = {"timeout_s": timeout, "max_retries": max_retries}
    return {"base_url": base_url, "api_key": api_key} | {
        name: value for name, value in given.items() if value is not None
    }


class Letta(_Part):
    """Letta's client, over an InferScale sidecar.

    Args:
        api_key: of the sidecar; default INFERSCALE_API_KEY. LETTA_API_KEY is never sent.
        base_url: the sidecar; default INFERSCALE_BASE_URL, then http://127.0.0.1:8420.
        timeout: seconds to wait for an answer.
        max_retries: further attempts after a failed connection, 429 or 503.
        http_client: your own `httpx.Client`; it stays open.
        cloud: project, project_id and environment are refused.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        http_client: httpx.Client | None = None,
        **cloud: Any,
    ) -> None:
        settings = _settings(api_key, base_url, timeout, max_retries, cloud)
        client = Memory(**settings, http_client=http_client)
        super().__init__("", client)
        self.inferscale = client
        self.agents = Agents(client)
        self.passages = Passages("passages", client)

    def close(self) -> None:
        """Close the connections."""
        self.inferscale.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncLetta(_Part):
    """`Letta` for asyncio: every method is awaited. `http_client` is an `httpx.AsyncClient`."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        http_client: httpx.AsyncClient | None = None,
        **cloud: Any,
    ) -> None:
        settings = _settings(api_key, base_url, timeout, max_retries, cloud)
        client = AsyncMemory(**settings, http_client=http_client)
        super().__init__("", client)
        self.inferscale = client
        self.agents = AsyncAgents(client)
        self.passages = AsyncPassages("passages", client)

    async def close(self) -> None:
        """Close the connections."""
        await self.inferscale.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
