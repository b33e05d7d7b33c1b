"""Contents, events and configurations of ADK → texts and fields. Pure functions."""

from collections.abc import Sequence
from typing import Any

from google.genai import types


def text_of(content: Any) -> str:
    """The text of a `Content`, without thoughts."""
    parts = (content.parts if content else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def turns_of(events: Sequence[Any]) -> dict[str, tuple[list[str], str | None]]:
    """Invocation → (what the user said in it, its last answer)."""
    turns: dict[str, tuple[list[str], str | None]] = {}
    for event in events:
        text = text_of(event.content)
        if not text.strip() or event.partial:
            continue
        said, answer = turns.get(event.invocation_id, ([], None))
        if event.author == "user":
            said = [*said, text]
        elif event.is_final_response():
            answer = text
        turns[event.invocation_id] = said, answer
    return turns


def extra_body_of(config: types.GenerateContentConfig) -> dict[str, Any]:
    """What a request sends beside OpenAI's fields."""
    return dict((config.http_options and config.http_options.extra_body) or {})


def with_extra_body(
    config: types.GenerateContentConfig, body: dict[str, Any]
) -> types.GenerateContentConfig:
    """A copy of the configuration that sends `body`."""
    options = config.http_options or types.HttpOptions()
    options = options.model_copy(update={"extra_body": body})
    return config.model_copy(update={"http_options": options})
