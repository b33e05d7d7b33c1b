"""Reads the fields of a request that concern memory, and refuses forged ones.

Owns validation only: pure functions over the parsed JSON body, no I/O. Every message names the
field, and `param` carries it.
"""

import json
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

from pydantic import ValidationError

from inferscale.protocol.chat import MemoryField
from inferscale.protocol.engine import PARAMS_FIELD
from inferscale_sidecar.errors import InvalidInput

Endpoint = Literal["chat", "completions", "responses", "messages"]

MAX_QUERY_CHARS = 8_192
"""Of a long user message only the end is searched with; embedders read less than that anyway."""

_RESERVED = frozenset({PARAMS_FIELD, "prompt_token_ids"})
_RESERVED_STARTS = ("do_remote_", "remote_")
_OPTIONS = (
    "tools",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "reasoning_effort",
    "add_special_tokens",
)


def take_memory(body: MutableMapping[str, Any]) -> MemoryField | None:
    """Removes the `memory` field from the body and validates it.

    Raises:
        InvalidInput: it is not a valid `MemoryField`.
    """
    raw = body.pop("memory", None)
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise InvalidInput(
            f"memory must be an object such as {{'handle': 'mh_…'}}, not {type(raw).__name__}",
            param="memory",
        )
    try:
        return MemoryField.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(("memory", *(str(part) for part in first["loc"])))
        raise InvalidInput(f"{param}: {first['msg']}", param=param) from error


def refuse_reserved(body: Mapping[str, Any]) -> None:
    """A client may not speak to the connector, nor replace the rendered prompt behind our back.

    Raises:
        InvalidInput: `kv_transfer_params` holds a field that is not the client's to set.
    """
    params = body.get("kv_transfer_params")
    if params is not None and not isinstance(params, Mapping):
        raise InvalidInput(
            f"kv_transfer_params must be an object, not {type(params).__name__}",
            param="kv_transfer_params",
        )
    for name in params or ():
        if name in _RESERVED or str(name).startswith(_RESERVED_STARTS):
            field = f"kv_transfer_params.{name}"
            raise InvalidInput(
                f"{field} is set by the server only; name memory in the top-level field `memory`",
                param=field,
            )
    extra = body.get("vllm_xargs")
    if isinstance(extra, Mapping) and "kv_transfer_params" in extra:
        field = "vllm_xargs.kv_transfer_params"
        raise InvalidInput(f"{field} is set by the server only", param=field)


def own_salt(body: Mapping[str, Any]) -> str | None:
    """The client's own `cache_salt`.

    Raises:
        InvalidInput: it is not a string.
    """
    salt = body.get("cache_salt")
    if salt is not None and not isinstance(salt, str):
        raise InvalidInput("cache_salt must be a string", param="cache_salt")
    return salt


def template_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """What, besides the messages, decides what the chat template writes before the memory."""
    return {name: body[name] for name in _OPTIONS if body.get(name) is not None}


def messages_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chat messages.

    Raises:
        InvalidInput: they are not a list of objects.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise InvalidInput("messages must be a list of message objects", param="messages")
    return messages


def prompt_of(body: Mapping[str, Any]) -> str:
    """The prompt of a plain completion.

    Raises:
        InvalidInput: it is a batch or token ids: memory has one place only in one text.
    """
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise InvalidInput(
            "with memory, prompt must be a single string (send one request per prompt)",
            param="prompt",
        )
    return prompt


def clean_query(text: str) -> str:
    """What to search with, of what a user said.

    Raises:
        InvalidInput: there is nothing.
    """
    text = text.encode("utf-8", "ignore").decode()  # `encoded` refuses lone surrogates, by name
    text = text.replace("\x00", " ").strip()[-MAX_QUERY_CHARS:]
    if not text:
        raise InvalidInput(
            "there is no text to search memory with: the last user message is empty; "
            "give memory.query",
            param="memory.query",
        )
    return text


def text_of(content: Any) -> str:
    """Text of a message: a string, or the text of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [p.get("text") for p in parts if isinstance(p, Mapping)]
    return "\n".join(t for t in texts if isinstance(t, str))


def is_text(content: Any) -> bool:
    """Whether a message's content has no other parts than text."""
    parts = content if isinstance(content, list) else ()
    return all(isinstance(part, Mapping) and "text" in part for part in parts)


def encoded(body: Mapping[str, Any]) -> bytes:
    """The body as JSON for the engine.

    Raises:
        InvalidInput: it holds what JSON or UTF-8 cannot.
    """
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"the body contains a lone surrogate (U+{ord(error.object[error.start]):04X}); "
            "send valid Unicode"
        ) from error
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}; NaN and Infinity are not") from error
