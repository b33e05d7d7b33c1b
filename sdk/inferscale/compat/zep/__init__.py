"""Zep's clients over InferScale: `from inferscale.compat.zep import Zep, Message`.

Both spellings in the field work: v3 (`thread.get_user_context(thread_id)`, `graph.search`) and v4
(`thread.get_context(thread_uuid)`, `graph.search_edges`). A user is a `user_id`, a thread a
`run_id`, a graph without a user an `agent_id`; every memory is a fact. See `docs/from-zep.md`.
"""

from inferscale import APIError as ApiError
from inferscale import NotFoundError
from inferscale.compat._refuse import DialectError
from inferscale.compat.zep._client import AsyncZep, Zep
from inferscale.compat.zep.types import AddMessage, EpisodeData, Message

__all__ = [
    "AddMessage",
    "ApiError",
    "AsyncZep",
    "DialectError",
    "EpisodeData",
    "Message",
    "NotFoundError",
    "Zep",
]
