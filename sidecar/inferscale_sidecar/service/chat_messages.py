"""Lists of messages, of whichever endpoint: what the user said last, and a block put beside it.

Pure functions over parsed JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale_sidecar.build.prefix_finder import At
from inferscale_sidecar.service.chat_fields import text_of

Messages = list[dict[str, Any]]
_TEXT_PARTS = ("text", "input_text", "output_text")


def system_only(text: str) -> tuple[Messages, Mapping[str, Any]]:
    """A chat of this system message and any first word; and no template options."""
    system = [{"role": "system", "content": text}] if text else []
    return [*system, {"role": "user", "content": "."}], {}


def whole_chat(system: str, given: str | Messages) -> tuple[Messages, Mapping[str, Any]] | None:
    """A conversation of texts as chat messages; None for any other."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages: Messages = [{"role": "system", "content": system}] if system else []
    for item in items:
        content = _text(item.get("content"))
        if content is None or item.get("role") not in ("user", "assistant"):
            return None
        messages.append({"role": item["role"], "content": content})
    return messages, {}


def _text(content: Any) -> str | None:
    """A text, or the only part of a content that is one; how vLLM joins several differs."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        content = content[0].get("text") if content[0].get("type") in _TEXT_PARTS else None
    return content if isinstance(content, str) else None


def last_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Of the last message of the user's that has any text: results of tools are theirs, too."""
    texts = (text_of(m.get("content")) for m in reversed(messages) if m.get("role") == "user")
    return next((text for text in texts if text.strip()), "")


def before_user(
    messages: Sequence[dict[str, Any]], block: str, *, kind: str, at: At = "system"
) -> Messages:
    """The messages with the block before the text of the user's first message, or of the last one
    that has any.
    """
    users = [n for n, message in enumerate(messages) if message.get("role") == "user"]
    if at == "last":
        users = [n for n in users if text_of(messages[n].get("content")).strip()][-1:]
    if not users:
        alone = {"role": "user", "content": block}
        return [*messages, alone] if at == "last" else [alone, *messages]
    message = messages[users[0]]
    content = message.get("content")
    if isinstance(content, list):
        content = [{"type": kind, "text": f"{block}\n\n"}, *content]
    else:
        content = f"{block}\n\n{content or ''}"
    return [*messages[: users[0]], {**message, "content": content}, *messages[users[0] + 1 :]]
