"""Tools with which a model edits its own pinned blocks, and what a call of them does.

Owns their schemas and the words of their answers. Invariant: whose blocks are edited is the
developer's to say; a call names a label and texts, and nothing else of it counts.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import _block_operations
from inferscale._block_results import Block
from inferscale._dialect import Scope
from inferscale._exchange import Flow, exchange
from inferscale._operation import Operation
from inferscale._retry import RetryPolicy
from inferscale.errors import (
    APIStatusError,
    ConflictError,
    InvalidArgumentError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    TooLargeError,
)

_APPEND, _REPLACE = "core_memory_append", "core_memory_replace"
_ARGUMENTS = {
    _APPEND: {"content": "The text to add, on a new line at the end."},
    _REPLACE: {
        "old_content": "The text to replace, letter by letter as it stands in the block.",
        "new_content": "What to put there; empty to remove it.",
    },
}
_DESCRIPTIONS = {
    _APPEND: "Add to a block of the pinned memory what must be known in every conversation.",
    _REPLACE: "Change or remove text in a block of the pinned memory.",
}
_FOR_THE_MODEL = (
    *(InvalidRequestError, PermissionDeniedError, NotFoundError, ConflictError, TooLargeError),
)
_Call = Any


def block_tools(labels: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """OpenAI definitions of `core_memory_append` and `core_memory_replace`, for `tools=`.

    Args:
        labels: the only labels that the model may name; None: any.
    """
    return [_definition(name, labels) for name in (_APPEND, _REPLACE)]


def is_block_tool(call: _Call) -> bool:
    """Whether a model's call is of one of `block_tools`, for agents that have others as well."""
    return _read(call)[0] in _ARGUMENTS


def run_tool(call: _Call, scope: Scope, policy: RetryPolicy) -> Flow[dict[str, str]]:
    """Carry out a call on the blocks of a scope; the result is the message that answers it."""
    name, arguments, call_id = _read(call)
    if name not in _ARGUMENTS:
        raise InvalidArgumentError(
            f"{name!r} is not a tool for blocks; those are {sorted(_ARGUMENTS)}."
        )
    shown = yield from exchange(_block_operations.shown(scope), policy)
    try:
        operation = _edit(name, _texts(name, arguments), shown.results)
        block = yield from exchange(operation, policy)
        content = f"Done. {block.label!r} has {len(block.value)} of {block.limit} characters now."
    except (*_FOR_THE_MODEL, InvalidArgumentError) as error:
        said = error.message if isinstance(error, APIStatusError) else str(error)
        content = f"Error: {said}"
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _definition(name: str, labels: Sequence[str] | None) -> dict[str, Any]:
    label: dict[str, Any] = {"type": "string", "description": "Which block, by its label."}
    if labels is not None:
        label["enum"] = list(labels)
    texts = {text: {"type": "string", "description": d} for text, d in _ARGUMENTS[name].items()}
    parameters = {
        "type": "object",
        "properties": {"label": label, **texts},
        "required": ["label", *texts],
        "additionalProperties": False,
    }
    function = {"name": name, "description": _DESCRIPTIONS[name], "parameters": parameters}
    return {"type": "function", "function": function}


def _edit(name: str, texts: Mapping[str, str], blocks: Sequence[Block]) -> Operation[Block]:
    named = [block for block in blocks if block.label == texts["label"]]
    if not named:
        labels = ", ".join(repr(block.label) for block in blocks) or "none"
        raise InvalidArgumentError(f"there is no block {texts['label']!r}; there are: {labels}.")
    block_id = named[-1].id  # of several, the one of the narrowest scope
    if name == _APPEND:
        return _block_operations.append(block_id, texts["content"], if_version=None)
    return _block_operations.replace(
        block_id, texts["old_content"], texts["new_content"], if_version=None
    )


def _texts(name: str, arguments: Any) -> dict[str, str]:
    """The arguments of a call, as a model wrote them."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        raise InvalidArgumentError("the arguments are not JSON.") from None
    wanted = ("label", *_ARGUMENTS[name])
    if not isinstance(given, Mapping) or not all(isinstance(given.get(n), str) for n in wanted):
        raise InvalidArgumentError(f"the arguments must be strings named {', '.join(wanted)}.")
    return {n: given[n] for n in wanted}


def _read(call: _Call) -> tuple[str, Any, str]:
    """(name, arguments, id) of a tool call: OpenAI's object, or the same as a dict."""
    fields = call if isinstance(call, Mapping) else _attributes(call, "id", "function")
    function = fields.get("function")
    inner = (
        function if isinstance(function, Mapping) else _attributes(function, "name", "arguments")
    )
    if not isinstance(inner.get("name"), str):
        raise InvalidArgumentError(
            f"a {type(call).__name__} is not a tool call; pass one of "
            "choices[0].message.tool_calls."
        )
    return inner["name"], inner.get("arguments"), str(fields.get("id") or "")


def _attributes(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name, None) for name in names}
