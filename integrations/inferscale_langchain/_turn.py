"""One turn of a conversation: what to search with, what to remember, and its idempotency key.

Pure functions over LangChain messages. Invariant: messages that a framework wrote (summaries) are
nobody's words, and are neither searched with nor remembered.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from inferscale_shared.turn import Remember

MAX_QUERY_CHARS = 8_192
"""Of a long message only the end is searched with, as the sidecar does."""


def query_of(messages: Sequence[BaseMessage]) -> str | None:
    """What to search memory with: the last text of the user's, or None if there is none."""
    for message in reversed(messages):
        if _is_user(message):
            text = message_text(message).replace("\x00", " ").strip()
            return text[-MAX_QUERY_CHARS:] or None
    return None


def turn_of(messages: Sequence[BaseMessage], remember: Remember) -> list[BaseMessage]:
    """The messages of the last turn that are worth keeping, in order.

    A turn begins with the user's messages that stand together at the end of what users wrote.
    """
    at = [n for n, message in enumerate(messages) if _is_user(message)]
    if remember == "nothing" or not at:
        return []
    start = at[-1]
    while start - 1 in at:
        start -= 1
    kept = [message for message in messages[start : at[-1] + 1] if message_text(message).strip()]
    if remember == "turn":
        answers = [m for m in messages[at[-1] + 1 :] if isinstance(m, AIMessage)]
        kept += [m for m in answers[-1:] if not m.tool_calls and message_text(m).strip()]
    return kept


def as_memory(messages: Sequence[BaseMessage]) -> list[dict[str, str]]:
    """The messages as `Memory.add` takes them."""
    return [{"role": _role(message), "content": message_text(message)} for message in messages]


def turn_key(
    messages: Sequence[BaseMessage],
    *,
    scope: Mapping[str, str],
    thread_id: str | None,
    metadata: Mapping[str, Any] | None,
) -> str:
    """Names the addition of these messages: the same for every retry and resume of the turn.

    The texts are in it because applications may number their messages themselves, the same in
    every thread; LangGraph's own ids are unique.
    """
    said = [[message.id, _role(message), message_text(message)] for message in messages]
    text = json.dumps([dict(scope), thread_id, metadata, said], sort_keys=True, default=str)
    return f"langchain-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def message_text(message: BaseMessage) -> str:
    """The text of a message, without images, reasoning and tool calls."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text") for part in content]
    return "\n".join(part for part in parts if isinstance(part, str))


def _is_user(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs


def _role(message: BaseMessage) -> str:
    return "user" if isinstance(message, HumanMessage) else "assistant"
