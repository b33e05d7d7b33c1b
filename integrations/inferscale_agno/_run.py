"""What a run of Agno was asked, and what it was answered. Pure functions."""

from collections.abc import Iterable, Mapping
from typing import Any

from agno.models.message import Message
from agno.models.response import ModelResponse


def said_in(run: Any) -> list[str]:
    """The user's texts in a run's input; objects and dicts are data, not words."""
    given = run.input.input_content if run.input is not None else None
    items = given if isinstance(given, list) else [given]
    return [text for item in items if (text := _text(item)) and text.strip()]


def query_of(run: Any) -> str:
    """What to search memory with: the last text, or else the data."""
    said = said_in(run)
    if said or run.input is None:
        return said[-1] if said else ""
    return str(run.input.input_content_string())


def answer_of(events: Iterable[Any]) -> str | None:
    """The text of a model's answer, or of its parts."""
    contents = (event.content for event in events if isinstance(event, ModelResponse))
    return "".join(content for content in contents if isinstance(content, str)) or None


def _text(item: Any) -> str | None:
    if isinstance(item, Message):
        item = {"role": item.role, "content": item.content}
    if isinstance(item, Mapping):
        if item.get("role", "user") != "user":
            return None
        item = item.get("content", item.get("text"))
    if isinstance(item, list):
        item = "\n".join(text for part in item if (text := _text(part)))
    return item if isinstance(item, str) else None
