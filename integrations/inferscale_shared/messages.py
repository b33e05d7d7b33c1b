"""OpenAI's messages (dicts, of chats or of responses) → the user's texts. Pure functions."""

from collections.abc import Iterable, Mapping
from typing import Any


def last_said(given: str | Iterable[Any]) -> str | None:
    """The last text of the user's, or None if there is none."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    texts = user_texts(items)
    return texts[-1] if texts else None


def user_texts(items: Iterable[Any]) -> list[str]:
    """The texts of the user's messages among the items, without blank ones."""
    messages = (i for i in items if isinstance(i, Mapping) and i.get("role") == "user")
    texts = (_text(message.get("content")) for message in messages)
    return [text for text in texts if text.strip()]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
