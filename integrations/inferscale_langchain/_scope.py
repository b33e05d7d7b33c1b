"""Whose memory: from the constructor, or from the run's context, never from what a model wrote.

Owns the look-up of ids. Invariant: without an id there is an error, never somebody else's memory.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inferscale import InvalidArgumentError
from inferscale_shared.source import ids_in
from inferscale_shared.turn import IDS

ScopeSource = Mapping[str, str] | Callable[[Any], Mapping[str, str | None]] | None
"""Fixed ids; a function of the run's context that gives them; None: the context's own fields."""


def read_scope(source: ScopeSource, context: Any) -> dict[str, str]:
    """The ids (`user_id`, `agent_id`, `run_id`, `app_id`) of this run; at least one.

    Args:
        source: see `ScopeSource`.
        context: what the run was invoked with (`agent.invoke(…, context=…)`): an object or a dict.

    Raises:
        InvalidArgumentError: no id, an unknown one, or one that is not a string.
    """
    if source is None:
        found: Mapping[str, Any] = ids_in(context)
    else:
        found = source(context) if callable(source) else source
    if unknown := sorted(set(found) - set(IDS)):
        raise InvalidArgumentError(f"scope names {unknown}; it takes {', '.join(IDS)}.")
    ids = {name: value for name, value in found.items() if value is not None}
    if not ids:
        raise InvalidArgumentError(
            f"whose memory? The run's context has none of {', '.join(IDS)}; pass "
            "context={'user_id': …} to invoke, or scope={'user_id': …} to the constructor."
        )
    for name, value in ids.items():
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} is a {type(value).__name__}; it must be a string.")
    return ids
