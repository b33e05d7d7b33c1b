"""InferScale: memory for LLM agents that the model does not have to re-read.

`Memory` and `AsyncMemory` talk to a sidecar. `OpenAI` and `AsyncOpenAI` are OpenAI's own clients
with memory attached; they need the extra `openai` and are imported only when they are used.
"""

from typing import TYPE_CHECKING, Any

from inferscale._async_block_client import AsyncBlocks
from inferscale._async_client import AsyncMemory
from inferscale._async_thread_client import AsyncThreads
from inferscale._attach import MemoryLike, memory_field, merge_extra_body
from inferscale._block_client import Blocks
from inferscale._block_results import Block, BlockHistoryRecord, BlockList, PinnedBlock
from inferscale._block_tools import block_tools, is_block_tool
from inferscale._chat import ChatCompletion, ChatCompletionChunk, ChatMessage
from inferscale._client import Memory
from inferscale._documents import AsyncDocuments, Documents
from inferscale._handle import MemoryHandle
from inferscale._results import (
    AddedMemory,
    AddResult,
    BuildStatus,
    DeleteResult,
    Document,
    EntityList,
    EntityRecord,
    FoundDocument,
    HistoryRecord,
    ListResult,
    MemoryRecord,
    MemoryReport,
    RecalledMemory,
    SearchHit,
    SearchResult,
    UpdateResult,
)
from inferscale._stream import AsyncChatStream, ChatStream
from inferscale._thread_client import Threads
from inferscale._thread_results import (
    AddMessagesResult,
    MessageList,
    Thread,
    ThreadContext,
    ThreadList,
    ThreadMessage,
    ThreadSummary,
)
from inferscale._transfer import ExportResult, ImportResult
from inferscale._version import __version__
from inferscale.errors import (
    APIConnectionError,
    APIError,
    APIResponseError,
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    ConflictError,
    InferScaleError,
    InvalidArgumentError,
    InvalidRequestError,
    NotFoundError,
    NotReadyError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from inferscale.protocol.values import SCOPE_IDS

if TYPE_CHECKING:
    from inferscale._openai import AsyncOpenAI as AsyncOpenAI
    from inferscale._openai import OpenAI as OpenAI

__all__ = [
    "SCOPE_IDS",
    "APIConnectionError",
    "APIError",
    "APIResponseError",
    "APIStatusError",
    "APITimeoutError",
    "AddMessagesResult",
    "AddResult",
    "AddedMemory",
    "AsyncBlocks",
    "AsyncChatStream",
    "AsyncDocuments",
    "AsyncMemory",
    "AsyncThreads",
    "AuthenticationError",
    "Block",
    "BlockHistoryRecord",
    "BlockList",
    "Blocks",
    "BuildStatus",
    "ChatCompletion",
    "ChatCompletionChunk",
    "ChatMessage",
    "ChatStream",
    "ConflictError",
    "DeleteResult",
    "Document",
    "Documents",
    "EntityList",
    "EntityRecord",
    "ExportResult",
    "FoundDocument",
    "HistoryRecord",
    "ImportResult",
    "InferScaleError",
    "InvalidArgumentError",
    "InvalidRequestError",
    "ListResult",
    "Memory",
    "MemoryHandle",
    "MemoryLike",
    "MemoryRecord",
    "MemoryReport",
    "MessageList",
    "NotFoundError",
    "NotReadyError",
    "PermissionDeniedError",
    "PinnedBlock",
    "QuotaExceededError",
    "RateLimitError",
    "RecalledMemory",
    "SearchHit",
    "SearchResult",
    "ServerError",
    "StreamError",
    "Thread",
    "ThreadContext",
    "ThreadList",
    "ThreadMessage",
    "ThreadSummary",
    "Threads",
    "TooLargeError",
    "UnavailableError",
    "UnsupportedError",
    "UpdateResult",
    "__version__",
    "block_tools",
    "is_block_tool",
    "memory_field",
    "merge_extra_body",
]

_LAZY = ("AsyncOpenAI", "OpenAI")

# Tracebacks and reprs show the path under which a name is public.
for _name in __all__:
    if isinstance(_public := globals()[_name], type) or callable(_public):
        _public.__module__ = "inferscale"


def __getattr__(name: str) -> Any:
    """`OpenAI` and `AsyncOpenAI`: not in `__all__`, for `import *` must work without them."""
    if name not in _LAZY:
        raise AttributeError(f"module 'inferscale' has no attribute {name!r}")
    try:
        from inferscale import _openai
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        raise ImportError(
            f"inferscale.{name} needs the package openai: pip install 'inferscale-memory[openai]'",
            name="openai",
        ) from None
    return getattr(_openai, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])
