"""InferScale in LangChain and LangGraph: agents, chat model, store, retriever, tools, older ones.

Thin shells over the public SDK. Invariant: a name imports only the part of LangChain that it needs,
and only when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
_PACKAGES = ("langchain", "langchain_classic", "langchain_core", "langchain_openai", "langgraph")

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """The public names, each imported when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'inferscale_langchain' has no attribute {name!r}")
    try:
        module = import_module(f"inferscale_langchain.{_WHERE[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ImportError(
            f"inferscale_langchain.{name} needs the package {error.name}: "
            "pip install 'inferscale-memory[langchain]'",
            name=error.name,
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
