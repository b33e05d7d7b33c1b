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
    ids = ids_in(context)
    if not ids:
        raise InvalidArgumentError(
            f"whose memory? A {type(context).__name__} without {', '.join(IDS)} does not say; "
            "give one of them there, or memory={'user_id': …}."
        )
    return memory_field(ids)


def ids_in(context: Any) -> dict[str, Any]:
    """The ids that an object has as attributes, or a dict as items, and that are not None."""
    if not isinstance(context, Mapping):
        context = {name: getattr(context, name, None) for name in IDS}
    return {name: context[name] for name in IDS if context.get(name) is not None}
