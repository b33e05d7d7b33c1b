"""Mem0's exception names, for code that imports them: each is the class raised here in its place.

Invariant: every name of `mem0.exceptions` is here. They are names of InferScale's own classes, so
`message` is there and `str(error)` holds the remedy, but there is no `error_code` or `suggestion`.
"""

from inferscale.compat._refuse import DialectError
from inferscale.errors import (
    APIConnectionError,
    AuthenticationError,
    InferScaleError,
    InvalidArgumentError,
    NotFoundError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
)

__all__ = [
    "AuthenticationError",
    "CacheError",
    "ConfigurationError",
    "DatabaseError",
    "DependencyError",
    "EmbeddingError",
    "LLMError",
    "MemoryCorruptionError",
    "MemoryError",
    "MemoryNotFoundError",
    "MemoryQuotaExceededError",
    "NetworkError",
    "RateLimitError",
    "ValidationError",
    "VectorSearchError",
    "VectorStoreError",
]


class MemoryNotFoundError(NotFoundError, ValueError):
    """There is no memory with this id. A ValueError, as with Mem0's own `Memory`."""


MemoryError = InferScaleError
ValidationError = InvalidArgumentError
ConfigurationError = DialectError
MemoryQuotaExceededError = QuotaExceededError
NetworkError = APIConnectionError

# What fails behind the sidecar is one thing to its clients.
CacheError = ServerError
DatabaseError = ServerError
DependencyError = ServerError
EmbeddingError = ServerError
LLMError = ServerError
MemoryCorruptionError = ServerError
VectorSearchError = ServerError
VectorStoreError = ServerError
