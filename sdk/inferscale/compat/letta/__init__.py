"""Letta's memory over InferScale: `from inferscale.compat.letta import Letta`.

An agent is an `agent_id`, a passage is a memory, a block is a pinned block. See
`docs/from-letta.md`.
"""

from inferscale import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
)
from inferscale import InvalidRequestError as BadRequestError
from inferscale import ServerError as InternalServerError
from inferscale.compat._refuse import DialectError
from inferscale.compat.letta._client import AsyncLetta, Letta

__all__ = [
    "APIConnectionError",
    "APIError",
    "APIStatusError",
    "APITimeoutError",
    "AsyncLetta",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "DialectError",
    "InternalServerError",
    "Letta",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
]
