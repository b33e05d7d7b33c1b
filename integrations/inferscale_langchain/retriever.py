"""`InferScaleRetriever`: memories as LangChain documents, for chains that put text into prompts.

Owns the mapping from hits to documents. Text in a prompt is read by the model token by token; to
have memory injected instead, use `InferScaleMiddleware` or `ChatInferScale`.
"""

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, PrivateAttr

from inferscale import SCOPE_IDS, AsyncMemory, Memory, SearchResult
from inferscale_langchain._scope import read_scope
from inferscale_shared.clients import Clients


class InferScaleRetriever(BaseRetriever):
    """The memories of one scope that are closest to the query, best first.

    Args:
        memory, async_memory: as in `InferScaleMiddleware`.
        user_id, agent_id, run_id, app_id: whose memories; at least one.
        k: at most so many; also `invoke(query, k=…)`.
        threshold, filters: as in `Memory.search`.

    A document's metadata holds `score`, `created_at`, `updated_at`, `version`, the ids of the
    scope, and under `metadata` what was stored with the memory.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory | None = Field(default=None, exclude=True)
    async_memory: AsyncMemory | None = Field(default=None, exclude=True)
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None
    k: int = 10
    threshold: float | None = None
    filters: dict[str, Any] | None = None
    _clients: Clients = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Checks the scope. Raises InvalidArgumentError if there is none."""
        super().model_post_init(context)
        self._clients = Clients(self.memory, self.async_memory)
        self._scope()

    def _scope(self) -> dict[str, str]:
        return read_scope(None, self)

    def _options(self, k: int | None) -> dict[str, Any]:
        limit = self.k if k is None else k
        return {
            **self._scope(),
            "limit": limit,
            "threshold": self.threshold,
            "filters": self.filters,
        }

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return _documents(self._clients.call("search", query, **self._options(k)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return _documents(await self._clients.acall("search", query, **self._options(k)))


def _documents(found: SearchResult) -> list[Document]:
    kept = ("score", "created_at", "updated_at", "version", *SCOPE_IDS)
    return [
        Document(
            id=hit.id,
            page_content=hit.memory,
            metadata={
                **{name: hit[name] for name in kept if hit[name] is not None},
                "metadata": dict(hit.metadata or {}),
            },
        )
        for hit in found.results
    ]
