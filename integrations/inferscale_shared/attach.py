"""How a framework's request comes to name memory: with what the user said last, and once.

Owns which of two memories wins and the query. Pure functions; the wire's spelling is the SDK's.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import merge_extra_body

MAX_QUERY_CHARS = 8_192
"""Of a long message only the end is searched with, as the sidecar does."""


def attach(
    body: Mapping[str, Any] | None, memory: Mapping[str, Any], said: str | None
) -> dict[str, Any]:
    """A copy of a request's extra fields that names memory.

    Args:
        body: the extra fields so far. A `memory` among them wins, None too.
        memory: as `inferscale.memory_field` makes it.
        said: the user's last words, to search with unless `memory` is a handle or has a query.
            Without any there is nothing to search with, and the copy names no memory.
    """
    merged = dict(body or {})
    if "memory" in merged:
        return merged
    if "handle" in memory or "query" in memory:
        return merge_extra_body(merged, memory)
    query = clean_query(said or "")
    return merge_extra_body(merged, {**memory, "query": query}) if query else merged


def clean_query(text: str) -> str:
    """What of a message to search with: the end, without NUL bytes; "" if it is blank."""
    return text.replace("\x00", " ").strip()[-MAX_QUERY_CHARS:]
