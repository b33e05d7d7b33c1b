"""Whose memory a call uses: said beforehand, told by a function, or read off the call's context.

Owns that choice. Invariant: without an id there is an error, never somebody else's memory.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inferscale import InvalidArgumentError, MemoryLike, memory_field
from inferscale_shared.turn import IDS

MemorySource = MemoryLike | Callable[[Any], MemoryLike] | None
"""A scope or a handle; a function of the call's context that gives it; None: the context's ids."""


def check_source(source: MemorySource) -> None:
    """Refuse what cannot name a memory.

    Raises:
        InvalidArgumentError: it is neither a function, nor None, nor a scope, nor a handle.
    """
    if source is not None and not callable(source):
        memory_field(source)


def memory_of(source: MemorySource, context: Any) -> dict[str, Any]:
    """The `memory` field of a call.

    Args:
        source: see `MemorySource`.
        context: what the application gave to the call, not the model: an object or a dict whose
            `user_id`, `agent_id`, `run_id` and `app_id` are read if `source` is None.

    Raises:
        InvalidArgumentError: nobody is named, or malformed memory.
    """
    if source is not None:
        return memory_field(source(context) if callable(source) else source)
    found = {name: _field(context, name) for name in IDS}
    ids = {name: value for name, value in found.items() if value is not None}
    if not ids:
        raise InvalidArgumentError(
            f"whose memory? A {type(context).__name__} without {', '.join(IDS)} does not say; "
            "give one of them there, or memory={'user_id': …}."
        )
    return memory_field(ids)


def _field(context: Any, name: str) -> Any:
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
