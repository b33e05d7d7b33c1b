"""`Memory` and `AsyncMemory` with Mem0's signatures: shells over the flows of `_memory_calls`."""

import asyncio
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import AsyncMemory as AsyncClient
from inferscale import Memory as Client
from inferscale.compat._flow import awaiting, blocking
from inferscale.compat._refuse import refusing
from inferscale.compat.mem0._config import read_config
from inferscale.compat.mem0._memory_calls import MemoryCalls

_ABSENT = {
    "project": "projects belong to Mem0's platform",
    "config": "the sidecar is set up by its own configuration",
    "llm": "the LLM is the sidecar's engine",
    "embedding_model": "the sidecar embeds",
    "vector_store": "the sidecar keeps the memories; use search and get_all",
    "entity_store": "there are no entities",
    "graph": "there is no graph",
    "db": "the sidecar keeps the history; use history(memory_id)",
    "reranker": "the sidecar reranks; use search(…, rerank=True)",
}


def close_soon(client: AsyncClient) -> Awaitable[None]:
    """Close within the running loop; the result may be awaited, but Mem0's code does not."""
    return asyncio.ensure_future(client.close())


class _Refusing:
    """Methods and attributes of Mem0's objects that are not here say why."""

    reset = refusing(
        "Memory.reset",
        "it would delete the memories of every user of this API key; delete_all(user_id=…) "
        "deletes those of one",
    )
    chat = refusing("Memory.chat", "use memory.inferscale.chat(messages, user_id=…)")

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            raise AttributeError(f"{type(self).__name__}.{name} is not offered: {_ABSENT[name]}.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Memory(_Refusing):
    """Mem0's `Memory`, kept by an InferScale sidecar.

    Args:
        config: Mem0's config; ours in it is `{"inferscale": {"base_url": …, "api_key": …}}`.
        http_client: as for `inferscale.Memory`.
    """

    def __init__(self, config: Any = None, *, http_client: httpx.Client | None = None) -> None:
        self._client = Client(**read_config(config), http_client=http_client)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """As the constructor. Raises DialectError for parts that only the sidecar could honour."""
        return cls(config_dict)

    add = blocking(MemoryCalls.add)
    get = blocking(MemoryCalls.get)
    get_all = blocking(MemoryCalls.get_all)
    search = blocking(MemoryCalls.search)
    update = blocking(MemoryCalls.update)
    delete = blocking(MemoryCalls.delete)
    delete_all = blocking(MemoryCalls.delete_all)
    history = blocking(MemoryCalls.history)

    @property
    def inferscale(self) -> Client:
        """The SDK's client, for what Mem0 has not: `recall`, handles, `chat`."""
        return self._client

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncMemory(_Refusing):
    """`Memory` for asyncio: every method but `from_config` and `close` is awaited."""

    def __init__(self, config: Any = None, *, http_client: httpx.AsyncClient | None = None) -> None:
        self._client = AsyncClient(**read_config(config), http_client=http_client)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """As the constructor."""
        return cls(config_dict)

    add = awaiting(MemoryCalls.add)
    get = awaiting(MemoryCalls.get)
    get_all = awaiting(MemoryCalls.get_all)
    search = awaiting(MemoryCalls.search)
    update = awaiting(MemoryCalls.update)
    delete = awaiting(MemoryCalls.delete)
    delete_all = awaiting(MemoryCalls.delete_all)
    history = awaiting(MemoryCalls.history)

    @property
    def inferscale(self) -> AsyncClient:
        """The SDK's client."""
        return self._client

    def close(self) -> Awaitable[None]:
        """Close the connections. May be awaited; needs not be, as in Mem0. Needs a running loop."""
        return close_soon(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()
