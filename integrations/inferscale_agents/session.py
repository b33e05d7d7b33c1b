"""`RememberingSession`: a session of the Agents SDK whose user messages outlive the thread.

Owns what is written to memory, and nothing of the thread: that is the inner session's. Invariant:
only the user's own words are remembered, and a thread never fails because of it unless asked to.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import AsyncMemory
from inferscale_shared.clients import Clients
from inferscale_shared.messages import user_texts
from inferscale_shared.turn import TurnWriter


class RememberingSession:
    """Any session (SQLiteSession, …) that also remembers what the user says.

    Args:
        session: keeps the thread.
        memory: the client; default: one from the environment.
        user_id, agent_id, run_id, app_id: whose memory; at least one.
        raise_write_errors: True: an error of the sidecar ends the run. False: it is logged.

    Raises:
        InvalidArgumentError: none of the ids is given.
    """

    def __init__(
        self,
        session: Any,
        memory: AsyncMemory | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        raise_write_errors: bool = False,
    ) -> None:
        self._writer = TurnWriter(
            Clients(None, memory or AsyncMemory()),
            {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id},
            raise_write_errors=raise_write_errors,
        )
        self._session = session
        self._said: list[str] = []

    @property
    def session_id(self) -> str:
        """The inner session's."""
        return str(self._session.session_id)

    @property
    def session_settings(self) -> Any:
        """The inner session's."""
        return getattr(self._session, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The thread's items."""
        found: list[Any] = await self._session.get_items(limit)
        return found

    async def add_items(self, items: list[Any]) -> None:
        """Adds to the thread. The user's messages are remembered when the answer is added.

        Not before: the running turn would recall what was just said.
        """
        await self._session.add_items(items)
        self._said += user_texts(items)
        if self._said and any(_is_answer(item) for item in items):
            said, self._said = self._said, []
            await self._writer.awrite(said)

    async def pop_item(self) -> Any:
        """Takes the last item out of the thread. What was remembered stays."""
        item = await self._session.pop_item()
        for text in user_texts([item]):
            if text in self._said:
                self._said.remove(text)
        return item

    async def clear_session(self) -> None:
        """Empties the thread. What was remembered stays."""
        await self._session.clear_session()
        self._said = []


def _is_answer(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("role") == "assistant"
