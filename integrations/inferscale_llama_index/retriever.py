"""`InferScaleRetriever`: memories as LlamaIndex nodes, for engines that put text into prompts.

Owns the mapping from hits to nodes. Text in a prompt is read by the model token by token; to have
memory injected instead, use `InferScaleLLM`.
"""

from collections.abc import Mapping
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from inferscale import AsyncMemory, Memory, SearchResult
from inferscale_shared.clients import Clients
from inferscale_shared.turn import ids_of


class InferScaleRetriever(BaseRetriever):
    """The memories of one scope that are closest to the query, best first.

    Args:
        scope: whose, such as `{"user_id": "alice"}`.
        client: default: one from the environment. Blocking calls need an `inferscale.Memory`.
        similarity_top_k: at most so many.
        threshold, filters: as in `Memory.search`.
        options: everything else goes to `BaseRetriever`.

    Raises:
        InvalidArgumentError: the scope names nobody.
    """

    def __init__(
        self,
        scope: Mapping[str, Any],
        *,
        client: Memory | AsyncMemory | None = None,
        similarity_top_k: int = 10,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._clients = Clients.of(client)
        self._options: dict[str, Any] = {
            **ids_of(scope),
            "limit": similarity_top_k,
            "threshold": threshold,
            "filters": filters,
        }

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._clients.call("search", query_bundle.query_str, **self._options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._clients.acall("search", query_bundle.query_str, **self._options))


def _nodes(found: SearchResult) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=hit.id, text=hit.memory, metadata=dict(hit.metadata or {})),
            score=hit.score,
        )
        for hit in found.results
    ]
