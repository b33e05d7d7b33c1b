"""`InferScaleMemoryStore`: memories as text, for Strands' `MemoryManager`.

Owns the translation. Nothing is injected here: what is found is text that the model reads.
"""

from collections.abc import Mapping
from typing import Any

from strands.memory import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions

from inferscale import AsyncMemory, Memory
from inferscale_shared.clients import Clients
from inferscale_shared.turn import ids_of
from inferscale_strands._messages import text_of

DEFAULT_RESULTS = 10


class InferScaleMemoryStore(MemoryStore):
    """The memories of a user (or agent, or run) for `MemoryManager(stores=[…])`.

    Beside `InferScalePlugin`, which brings memory into every request, give the manager
    `injection=False`: it is then the model's tools to search and to write.

    Args:
        memory: a scope such as `{"user_id": "alice"}`. The model cannot choose another one.
        client: default: one from the environment.
        async_client: used instead, for agents that are awaited on one event loop.
        name, description, max_search_results, writable, extraction: as Strands has them. With
            `extraction`, the sidecar takes facts out of the messages; no model of the agent's does.

    Raises:
        InvalidArgumentError: no id in `memory`.
    """

    def __init__(
        self,
        memory: Mapping[str, Any],
        *,
        client: Memory | None = None,
        async_client: AsyncMemory | None = None,
        name: str = "inferscale",
        description: str | None = "What is known from earlier conversations.",
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
    ) -> None:
        self._scope = ids_of(memory)
        self._clients = Clients(client, async_client)
        self.name, self.description = name, description
        self.max_search_results, self.writable = max_search_results, writable
        self.extraction = extraction

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Memories like `query`, best first, each with its id and score."""
        limit = (options or {}).get("max_search_results") or self.max_search_results
        found = await self._clients.acall(
            "search", query, limit=limit or DEFAULT_RESULTS, **self._scope
        )
        return [
            MemoryEntry(
                content=hit.memory,
                metadata={**(hit.metadata or {}), "id": hit.id, "score": hit.score},
            )
            for hit in found.results
        ]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> Any:
        """Remember a text as it is."""
        return await self._clients.acall(
            "add", content, metadata=metadata, infer=False, **self._scope
        )

    async def add_messages(
        self, messages: list[Any], context: AddMessagesContext | None = None
    ) -> Any:
        """Remember messages; the sidecar takes the facts out, if it is set up to."""
        said = [{"role": m["role"], "content": text_of(m)} for m in messages]
        said = [message for message in said if message["content"].strip()]
        return await self._clients.acall("add", said, **self._scope) if said else None
