"""Messages of Strands (dicts of content blocks) → texts. Pure functions."""

from collections.abc import Sequence
from typing import Any


def user_texts(messages: Sequence[Any]) -> list[str]:
    """What the user said in these messages, without blank ones and results of tools."""
    texts = [text_of(message) for message in messages if message["role"] == "user"]
    return [text for text in texts if text.strip()]


def text_of(message: Any) -> str:
    """The text of a message; results of tools have none."""
    return "\n".join(block["text"] for block in message["content"] if "text" in block)
