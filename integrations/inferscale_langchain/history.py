"""`InferScaleChatMessageHistory`: a thread's messages, for code written against LangChain's class.

Owns how a message becomes a memory and back. The messages are memories like others: what a user
says in one thread can be recalled in the next. Invariant: every message that was added comes back
equal, in order, equal texts included. (New code: a checkpointer for the thread, and
`InferScaleMiddleware` for what outlives it.)
"""

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from inferscale import AsyncMemory, InvalidArgumentError, Memory, MemoryRecord
from inferscale_shared.clients import Clients

_FIELD = "langchain_message"
# The sidecar keeps no system messages by itself, and its roles are free words.
_ROLES = {"human": "user", "ai": "assistant", "system": "developer"}


class InferScaleChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, kept by the sidecar.

    Args:
        session_id: the thread; becomes `run_id`.
        user_id: whose memories they are too, to be recalled in other threads.
        memory, async_memory: as in `InferScaleMiddleware`.

    Raises:
        InvalidArgumentError: no session_id.
    """

    def __init__(
        self,
        session_id: str,
        *,
        user_id: str | None = None,
        memory: Memory | None = None,
        async_memory: AsyncMemory | None = None,
    ) -> None:
        if not session_id:
            raise InvalidArgumentError("session_id is empty; it must name the thread.")
        self._clients = Clients(memory, async_memory)
        self._scope = {"run_id": session_id, **({"user_id": user_id} if user_id else {})}

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, oldest first."""
        return _messages(self._clients.call("get_all", **self._scope).results)

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        return _messages((await self._clients.acall("get_all", **self._scope)).results)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Appends messages, one by one: those before an error are kept.

        Raises:
            InvalidRequestError: more than 64 KiB of text, or 16 KiB of anything else (images).
        """
        for message in messages:
            self._clients.call("add", **self._scope, **_written(message))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As `add_messages`."""
        for message in messages:
            await self._clients.acall("add", **self._scope, **_written(message))

    def clear(self) -> None:
        """Forgets the session."""
        self._clients.call("delete_all", **self._scope)

    async def aclear(self) -> None:
        """As `clear`."""
        await self._clients.acall("delete_all", **self._scope)


def _written(message: BaseMessage) -> dict[str, Any]:
    """The arguments of `Memory.add` that keep the message.

    A scope holds a text once only. So each message has a scope of its own inside the session:
    "yes" may be said twice, and the same message, added again, is one.
    """
    kept = message_to_dict(message)
    content = message.content
    is_text = isinstance(content, str) and bool(content.strip())
    if is_text:
        kept["data"]["content"] = None  # it is the memory's text: no need to have it twice
    tag = hashlib.sha256((message.id or uuid.uuid4().hex).encode("utf-8", "replace")).hexdigest()
    text = content if is_text else _in_words(message)
    return {
        "messages": {"role": _ROLES.get(message.type, message.type), "content": text},
        "agent_id": f"message-{tag[:32]}",
        "metadata": {_FIELD: kept},
        "infer": False,
    }


def _in_words(message: BaseMessage) -> str:
    """Something to store for a message that is not a text."""
    calls = ", ".join(call["name"] for call in getattr(message, "tool_calls", None) or ())
    return message.text.strip() or (f"(calls {calls})" if calls else "(a message without text)")


def _messages(records: Sequence[MemoryRecord]) -> list[BaseMessage]:
    found = []
    for record in reversed(records):
        kept = (record.metadata or {}).get(_FIELD)
        if kept is None:
            continue  # a memory of this run that is no message
        data = dict(kept["data"])
        if data["content"] is None:
            data["content"] = record.memory
        found.append({**kept, "data": data})
    restored: list[BaseMessage] = messages_from_dict(found)
    return restored
