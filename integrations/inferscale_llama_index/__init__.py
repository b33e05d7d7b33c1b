"""InferScale in LlamaIndex: an LLM with a user's memory, a chat memory that remembers, a retriever.

Thin shells over the public SDK. LlamaIndex is imported when a name of this package is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_llama_index.llm import InferScaleLLM as InferScaleLLM
    from inferscale_llama_index.memory import InferScaleMemory as InferScaleMemory
    from inferscale_llama_index.retriever import InferScaleRetriever as InferScaleRetriever

_WHERE = {
    "InferScaleLLM": "llm",
    "InferScaleMemory": "memory",
    "InferScaleRetriever": "retriever",
}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_llama_index",
    _WHERE,
    extra="llama-index",
    frameworks=("llama_index", "openai"),
)
