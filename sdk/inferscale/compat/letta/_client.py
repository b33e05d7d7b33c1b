"""`Letta` and `AsyncLetta`: blocks and passages over one client of the SDK; the rest is refused."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import AsyncMemory, Memory
from inferscale.compat._refuse import foreign, refuse_given
from inferscale.compat.letta._parts import (
    Agents,
    AsyncAgents,
    AsyncBlocks,
    AsyncPassages,
    Blocks,
    Part,
    Passages,
)

_CLOUD = {
    "base_url": "that is Letta's own service; pass the sidecar's address, or leave it out",
    "project": "the API key alone says whose memories these are",
    "project_id": "the API key alone says whose memories these are",
    "environment": "there is one sidecar; pass its address as base_url",
}


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


class Letta(Part):
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
        self.blocks = Blocks(client)
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


class AsyncLetta(Part):
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
        self.blocks = AsyncBlocks(client)
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
