"""`InferScaleMemoryService`: ADK's memory service, with memories as text.

Owns the translation. Nothing is injected here: what is found is text that the model reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from inferscale import AsyncMemory, Memory, NotFoundError
from inferscale_adk._content import text_of, turns_of
from inferscale_adk._scope import scope_of
from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, TurnWriter

DEFAULT_RESULTS = 10


class InferScaleMemoryService(BaseMemoryService):
    """For `Runner(memory_service=…)`, the tool `load_memory` and `add_session_to_memory`.

    What is written here and by `InferScalePlugin` is the same: a run that both write is one memory.

    Args:
        client: default: one from the environment.
        async_client: used instead, for runs on one event loop.
        across_apps, remember: as in `InferScalePlugin`.
        limit: at most so many memories for a search.
    """

    def __init__(
        self,
        *,
        client: Memory | None = None,
        async_client: AsyncMemory | None = None,
        across_apps: bool = False,
        remember: Remember = "user",
        limit: int = DEFAULT_RESULTS,
    ) -> None:
        self._clients = Clients(client, async_client)
        self._across_apps, self._remember, self._limit = across_apps, remember, limit

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """The user's memories like `query`, best first."""
        scope = self._scope(app_name, user_id)
        found = await self._clients.acall("search", query, limit=self._limit, **scope)
        return SearchMemoryResponse(memories=[_entry(hit) for hit in found.results])

    async def add_session_to_memory(self, session: Any) -> None:
        """Remember every run of the session; those that are remembered already are not written."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember the runs that these events are of."""
        writer = TurnWriter(
            self._clients,
            self._scope(app_name, user_id),
            remember=self._remember,
            metadata=custom_metadata,
            raise_write_errors=True,
        )
        for invocation_id, (said, answer) in turns_of(events).items():
            await writer.awrite(said, answer, turn_id=invocation_id)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember texts as they are."""
        scope = self._scope(app_name, user_id)
        for entry in memories:
            metadata = {**(entry.custom_metadata or {}), **(custom_metadata or {})} or None
            text = text_of(entry.content)
            await self._clients.acall("add", text, metadata=metadata, infer=False, **scope)

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget one memory of this user.

        Raises:
            NotFoundError: this user has none of that id.
        """
        found = await self._clients.acall("get", memory_id or "")
        scope = self._scope(app_name, user_id).items()
        # Ids are the tenant's, not the user's: whose it is must be looked up first.
        if found is None or any(getattr(found, name) != value for name, value in scope):
            raise NotFoundError(f"this user has no memory {memory_id!r}.", status_code=404)
        await self._clients.acall("delete", memory_id)

    def _scope(self, app_name: str, user_id: str) -> dict[str, str]:
        return scope_of(app_name, user_id, across_apps=self._across_apps)


def _entry(hit: Any) -> MemoryEntry:
    return MemoryEntry(
        content=types.Content(role="user", parts=[types.Part(text=hit.memory)]),
        custom_metadata={**(hit.metadata or {}), "score": hit.score},
        id=hit.id,
        author="user",
        timestamp=hit.created_at.isoformat(),
    )
