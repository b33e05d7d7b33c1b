"""How memory is named in a chat request: the only place that knows the `memory` field's spellings.

Pure functions, no I/O, no third-party client. Every integration goes through `merge_extra_body`.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from inferscale._handle import MemoryHandle
from inferscale._validate import explain
from inferscale.errors import InvalidArgumentError
from inferscale.protocol.chat import MemoryField

MemoryLike = MemoryHandle | str | Mapping[str, Any]
"""A handle, a handle's id, or a scope to recall from such as `{"user_id": "alice", "k": 20}`."""

_HANDLE_PREFIX = "mh_"


def memory_field(memory: MemoryLike) -> dict[str, Any]:
    """The value of the `memory` field of a request.

    Raises:
        InvalidArgumentError: neither a handle nor a scope, or both.
    """
    if isinstance(memory, MemoryHandle):
        return memory.as_field()
    if isinstance(memory, str):
        if not memory.startswith(_HANDLE_PREFIX):
            raise InvalidArgumentError(
                f"memory is the string {memory!r}, which is not a handle's id "
                f"('{_HANDLE_PREFIX}…'); for a user's memories write memory={{'user_id': …}}."
            )
        return {"handle": memory}
    if not isinstance(memory, Mapping):
        raise InvalidArgumentError(
            f"memory is a {type(memory).__name__}; pass a MemoryHandle, its id, "
            "or a dict such as {'user_id': 'alice', 'k': 20}."
        )
    try:
        return MemoryField.model_validate(dict(memory)).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise InvalidArgumentError(f"memory: {explain(error)}.") from None


def merge_extra_body(body: Mapping[str, Any] | None, memory: MemoryLike | None) -> dict[str, Any]:
    """A copy of `body` that names `memory`, with everything else in it kept.

    For any OpenAI client: `create(..., extra_body=merge_extra_body(existing, handle))`. Applying it
    twice changes nothing. With `memory=None` the copy names what `body` named already.

    Args:
        body: the extra fields of the request so far, or None.
        memory: replaces the `memory` of `body`.

    Raises:
        InvalidArgumentError: `memory` is neither a handle nor a scope, or both.
    """
    merged = dict(body or {})
    if memory is not None:
        merged["memory"] = memory_field(memory)
    return merged
