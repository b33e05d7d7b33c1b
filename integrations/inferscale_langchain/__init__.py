"""InferScale in LangChain and LangGraph: agents, chat model, store, retriever, tools, older ones.

Thin shells over the public SDK. Invariant: a name imports only the part of LangChain that it needs,
and only when it is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_langchain.chat_model import ChatInferScale as ChatInferScale
    from inferscale_langchain.classic import InferScaleMemory as InferScaleMemory
    from inferscale_langchain.history import (
        InferScaleChatMessageHistory as InferScaleChatMessageHistory,
    )
    from inferscale_langchain.middleware import InferScaleMiddleware as InferScaleMiddleware
    from inferscale_langchain.retriever import InferScaleRetriever as InferScaleRetriever
    from inferscale_langchain.store import InferScaleStore as InferScaleStore
    from inferscale_langchain.tools import AddMemoryTool as AddMemoryTool
    from inferscale_langchain.tools import DeleteMemoryTool as DeleteMemoryTool
    from inferscale_langchain.tools import SearchMemoriesTool as SearchMemoriesTool
    from inferscale_langchain.tools import create_memory_tools as create_memory_tools

_WHERE = {
    "AddMemoryTool": "tools",
    "ChatInferScale": "chat_model",
    "DeleteMemoryTool": "tools",
    "InferScaleChatMessageHistory": "history",
    "InferScaleMemory": "classic",
    "InferScaleMiddleware": "middleware",
    "InferScaleRetriever": "retriever",
    "InferScaleStore": "store",
    "SearchMemoriesTool": "tools",
    "create_memory_tools": "tools",
}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_langchain",
    _WHERE,
    extra="langchain",
    frameworks=(
        "langchain",
        "langchain_classic",
        "langchain_core",
        "langchain_openai",
        "langgraph",
    ),
)
