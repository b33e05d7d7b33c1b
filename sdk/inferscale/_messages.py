"""Messages as users write them → messages as the wire has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from inferscale.errors import InvalidArgumentError

Messages = str | Mapping[str, Any] | BaseModel | Sequence[str | Mapping[str, Any] | BaseModel]
"""A text, a chat message, or a list of them. Models (OpenAI's or ours) count as messages."""


def memory_messages(messages: Messages) -> Any:
    """For `add`: a text stays a text, anything else becomes a list of messages."""
    return messages if isinstance(messages, str) else chat_messages(messages)


def chat_messages(messages: Messages) -> Any:
    """For `chat`: a list of message dicts, a text being one of the user's."""
    if isinstance(messages, str | Mapping | BaseModel):
        messages = [messages]
    return [_one_message(message) for message in messages]


def _one_message(message: object) -> Any:
    if isinstance(message, str):
        return {"role": "user", "content": message}
    if isinstance(message, BaseModel):
        return message.model_dump(mode="json", exclude_none=True)
    if isinstance(message, Mapping):
        return dict(message)
    raise InvalidArgumentError(
        f"a message is a {type(message).__name__}; pass a string or {{'role': …, 'content': …}}."
    )
