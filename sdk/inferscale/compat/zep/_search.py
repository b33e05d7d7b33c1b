"""Zep's searches over memories, v3's and v4's.

Owns which scopes, rerankers and options of a search are ours, and why the others are refused.
"""

from typing import Any

from inferscale import InvalidArgumentError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import only_known, refuse
from inferscale.compat.zep import _shape
from inferscale.compat.zep._scope import graph_scope
from inferscale.compat.zep.types import (
    EntityEdge,
    Episode,
    GraphContextResponse,
    GraphSearchResults,
    Page,
)

_LIMIT, _MAX_LIMIT = 10, 50
_MMR_LAMBDA = 0.5
_NO_GRAPH = "there is no graph to walk; facts are found by meaning"
_NO_SEARCH = {
    "search_filters": "facts have no labels or types; use inferscale.search(filters=…)",
    "filters": "facts have no labels or types; use inferscale.search(filters=…)",
    "bfs_origin_node_uuids": _NO_GRAPH,
    "center_node_uuid": _NO_GRAPH,
    "max_characters": "a context has whole facts; limit their number",
    "return_raw_results": "results are ours, not a graph's",
    "filter_low_quality_results": "use inferscale.search(threshold=…)",
    "recency_bias": "newness is weighed in days; use inferscale.recall(recency_days=…)",
    "template_uuid": "the context has one format, which the model's KV is built for",
    "cursor": "a search has one page; ask for a larger one",
}


class SearchCalls:
    """The searching methods of `client.graph`, written once for both clients."""

    def search(
        self,
        /,
        *,
        query: str,
        user_id: str | None = None,
        graph_id: str | None = None,
        scope: str | None = None,
        limit: int | None = None,
        reranker: str | None = None,
        **options: Any,
    ) -> Flow[GraphSearchResults]:
        """v3: facts like `query` (`scope` edges, episodes), or a context of them (auto)."""
        order = _order("graph.search", reranker, options)
        who = graph_scope(user_id=user_id, graph_id=graph_id)
        size = _size(limit)
        if scope == "auto":
            handle = yield from call("recall", query, **who, k=size, **order)
            return GraphSearchResults(context=handle.text, handle=handle)
        if scope not in (None, "edges", "episodes"):
            refuse(f"graph.search(scope={scope!r})", "there are facts only: edges, episodes, auto")
        found = yield from call("search", query, **who, limit=size, **order)
        if scope == "episodes":
            return GraphSearchResults(episodes=[_shape.episode(hit) for hit in found.results])
        return GraphSearchResults(edges=[_shape.edge(hit) for hit in found.results])

    def search_edges(
        self,
        /,
        graph_uuid: str,
        *,
        query: str,
        page_size: int | None = None,
        reranker: str | None = None,
        **options: Any,
    ) -> Flow[Page[EntityEdge]]:
        """v4: facts like `query`, best first, in one page."""
        order = _order("graph.search_edges", reranker, options)
        who = graph_scope(graph_uuid=graph_uuid)
        found = yield from call("search", query, **who, limit=_size(page_size), **order)
        return Page([_shape.edge(hit) for hit in found.results])

    def search_episodes(
        self,
        /,
        graph_uuid: str,
        *,
        query: str,
        page_size: int | None = None,
        reranker: str | None = None,
        **options: Any,
    ) -> Flow[Page[Episode]]:
        """v4: what was added, by likeness to `query`."""
        order = _order("graph.search_episodes", reranker, options)
        who = graph_scope(graph_uuid=graph_uuid)
        found = yield from call("search", query, **who, limit=_size(page_size), **order)
        return Page([_shape.episode(hit) for hit in found.results])

    def get_context(
        self, /, graph_uuid: str, *, query: str, include_results: bool = False, **options: Any
    ) -> Flow[GraphContextResponse]:
        """v4: the facts for `query` as text, and a handle that stands for them in a request."""
        _order("graph.get_context", None, options)
        handle = yield from call("recall", query, **graph_scope(graph_uuid=graph_uuid))
        results = None
        if include_results:
            found = yield from call("search", query, **graph_scope(graph_uuid=graph_uuid))
            results = GraphSearchResults(edges=[_shape.edge(hit) for hit in found.results])
        return GraphContextResponse(context=handle.text, handle=handle, results=results)


def _order(method: str, reranker: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """How the SDK is to rank. Zep's `mmr_lambda` weighs relevance, our `diversity` the opposite."""
    options = dict(options)
    relevance = options.pop("mmr_lambda", None)
    only_known(method, _NO_SEARCH, options)
    if relevance is not None and reranker != "mmr":
        refuse(f"{method}(mmr_lambda={relevance!r})", "it goes with reranker='mmr'")
    if reranker == "mmr":
        return {"diversity": 1 - (_MMR_LAMBDA if relevance is None else relevance)}
    if reranker == "cross_encoder":
        return {"rerank": True}
    if reranker not in (None, "rrf"):
        refuse(f"{method}(reranker={reranker!r})", _NO_GRAPH)
    return {}


def _size(limit: int | None) -> int:
    if limit is not None and not 1 <= limit <= _MAX_LIMIT:
        raise InvalidArgumentError(f"limit is {limit}; it must be 1 to {_MAX_LIMIT}.")
    return _LIMIT if limit is None else limit
