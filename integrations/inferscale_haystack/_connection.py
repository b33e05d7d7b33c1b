"""A component's clients: made when they are first needed, as Haystack's components do.

Owns the memory clients of one component. Invariant: nothing of them is serialized.
"""

from typing import Any

from haystack.utils import Secret

from inferscale import AsyncMemory, Memory
from inferscale_shared.clients import Clients


class Connection:
    """The sidecar's address and key, and what is connected to it.

    Args:
        api_key: resolved when it is first needed.
        base_url: None: INFERSCALE_BASE_URL.
    """

    def __init__(self, api_key: Secret, base_url: str | None) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._memory: Memory | None = None
        self._async_memory: AsyncMemory | None = None

    def blocking(self) -> Clients:
        """A blocking client."""
        if self._memory is None:
            self._memory = Memory(**self._options())
        return Clients(self._memory, None)

    def awaiting(self) -> Clients:
        """An awaiting client, of the running event loop."""
        if self._async_memory is None:
            self._async_memory = AsyncMemory(**self._options())
        return Clients(None, self._async_memory)

    def close(self) -> None:
        """Closes the blocking client; the next call makes another one."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    async def close_async(self) -> None:
        """Closes the awaiting client; the next call makes another one."""
        if self._async_memory is not None:
            await self._async_memory.close()
            self._async_memory = None

    def _options(self) -> dict[str, Any]:
        return {"base_url": self._base_url, "api_key": self._api_key.resolve_value()}
