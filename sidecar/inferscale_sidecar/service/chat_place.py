"""Where memory stands in the body of each endpoint, and where the question is to be read.

Owns the shapes of four request bodies, as far as they concern memory. vLLM makes the same chat of
chat, responses and messages, so the block stands in the same place of the prompt in all of them: at
the end of the system message, or before the user's last words. Pure functions over parsed JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from inferscale_sidecar.build.prefix_finder import At
from inferscale_sidecar.compose.frame import MemoryFrame, Placement
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.chat_fields import (
    Endpoint,
    clean_query,
    is_text,
    messages_of,
    prompt_of,
    template_options,
    text_of,
)
from inferscale_sidecar.service.chat_messages import (
    Messages,
    before_user,
    last_text,
    system_only,
    whole_chat,
)

_TEMPLATE_FIELDS = ("tools", "reasoning", "thinking", "chat_template_kwargs")


class Place(Protocol):
    """One endpoint."""

    @property
    def path(self) -> str: ...

    def said(self, body: Mapping[str, Any]) -> str:
        """The last thing that the user said; empty if there is none. Raises InvalidInput."""

    def put(self, body: dict[str, Any], block: str, at: At = "system") -> None:
        """Puts the rendered block into the body. Raises InvalidInput."""

    def rendered(
        self, body: Mapping[str, Any], at: At = "system"
    ) -> tuple[Messages, Mapping[str, Any]] | None:
        """Chat messages and template options whose rendering begins as this request's does.

        Asked before `put`. None if that cannot be told; the engine finds out by itself then.
        """


def places(frame: MemoryFrame, placement: Placement) -> dict[Endpoint, Place]:
    """All endpoints that take memory."""
    return {
        "chat": _Chat(frame, placement),
        "completions": _Completions(frame),
        "responses": _Responses(frame, placement),
        "messages": _Anthropic(frame, placement),
    }


def is_searchable(place: Place, body: Mapping[str, Any]) -> bool:
    """Whether a body that does not name memory can take some, and says what to search for.

    False for a batch of prompts, token ids, or nothing of a user: the engine judges these.
    """
    try:
        return bool(clean_query(place.said(body)))
    except InvalidInput:
        return False


@dataclass(frozen=True)
class _Chat:
    """OpenAI's Chat Completions."""

    frame: MemoryFrame
    placement: Placement
    path: str = "/v1/chat/completions"

    def said(self, body: Mapping[str, Any]) -> str:
        users = [m for m in messages_of(body) if m.get("role") == "user"]
        return text_of(users[-1].get("content")) if users else ""

    def put(self, body: dict[str, Any], block: str, at: At = "system") -> None:
        placement: Placement = "last" if at == "last" else self.placement
        body["messages"] = self.frame.place(messages_of(body), block, placement=placement)

    def rendered(
        self, body: Mapping[str, Any], at: At = "system"
    ) -> tuple[Messages, Mapping[str, Any]] | None:
        messages = messages_of(body)
        if at == "last" and not all(is_text(m.get("content")) for m in messages):
            return None
        return messages, template_options(body)


@dataclass(frozen=True)
class _Completions:
    """OpenAI's Completions: the block stands before the prompt."""

    frame: MemoryFrame
    path: str = "/v1/completions"

    def said(self, body: Mapping[str, Any]) -> str:
        return prompt_of(body)

    def put(self, body: dict[str, Any], block: str, at: At = "system") -> None:
        if at == "last":
            raise InvalidInput(
                "a plain prompt has no last message; leave out memory.position, or use chat",
                param="memory.position",
            )
        body["prompt"] = self.frame.prepend(prompt_of(body), block)

    def rendered(
        self, body: Mapping[str, Any], at: At = "system"
    ) -> tuple[Messages, Mapping[str, Any]] | None:
        return None


@dataclass(frozen=True)
class _Responses:
    """OpenAI's Responses: `instructions` are the system message, `input` what follows."""

    frame: MemoryFrame
    placement: Placement
    path: str = "/v1/responses"

    def said(self, body: Mapping[str, Any]) -> str:
        given = _input_of(body)
        if isinstance(given, str):
            return given
        return last_text(given)

    def put(self, body: dict[str, Any], block: str, at: At = "system") -> None:
        _refuse_background(body)
        given, instructions = _input_of(body), _text_field(body, "instructions")
        if at == "system" and self.placement == "system":
            body["instructions"] = f"{instructions}\n\n{block}" if instructions else block
        elif isinstance(given, str):
            body["input"] = f"{block}\n\n{given}"
        else:
            body["input"] = before_user(given, block, kind="input_text", at=at)

    def rendered(
        self, body: Mapping[str, Any], at: At = "system"
    ) -> tuple[Messages, Mapping[str, Any]] | None:
        if any(body.get(name) for name in _TEMPLATE_FIELDS):
            return None
        system = _text_field(body, "instructions")
        if at == "last":
            follows = body.get("previous_response_id")  # only vLLM knows what was said before
            return None if follows else whole_chat(system, _input_of(body))
        return None if self.placement == "user" else system_only(system)


@dataclass(frozen=True)
class _Anthropic:
    """Anthropic's Messages: the field `system` is the system message."""

    frame: MemoryFrame
    placement: Placement
    path: str = "/v1/messages"

    def said(self, body: Mapping[str, Any]) -> str:
        return last_text(messages_of(body))

    def put(self, body: dict[str, Any], block: str, at: At = "system") -> None:
        messages, system = messages_of(body), body.get("system")
        if at == "last" or self.placement == "user":
            body["messages"] = before_user(messages, block, kind="text", at=at)
        elif isinstance(system, list):
            # vLLM joins the parts with nothing between them.
            body["system"] = [*system, {"type": "text", "text": f"\n\n{block}"}]
        else:
            text = _text_field(body, "system")
            body["system"] = f"{text}\n\n{block}" if text else block

    def rendered(
        self, body: Mapping[str, Any], at: At = "system"
    ) -> tuple[Messages, Mapping[str, Any]] | None:
        system = body.get("system")
        if isinstance(system, list) or any(body.get(name) for name in _TEMPLATE_FIELDS):
            return None
        system = _text_field(body, "system")
        if at == "last":
            return whole_chat(system, messages_of(body))
        return None if self.placement == "user" else system_only(system)


def _input_of(body: Mapping[str, Any]) -> str | Messages:
    given = body.get("input")
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise InvalidInput("input must be a string or a list of items", param="input")
    return given


def _text_field(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"with memory, {name} must be a string", param=name)
    return text or ""


def _refuse_background(body: Mapping[str, Any]) -> None:
    if body.get("background"):
        raise InvalidInput(
            "memory cannot go into a response in the background: its report would not be there; "
            "leave out background, or memory",
            param="background",
        )
