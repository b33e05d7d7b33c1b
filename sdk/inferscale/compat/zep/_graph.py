"""Zep's `graph` over our scopes, as far as facts go: every memory is an edge and an episode.

There are no nodes.
"""

import uuid
from collections.abc import Sequence
from typing import Any

from inferscale import NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse_given
from inferscale.compat.zep._add import add_data, add_fact
from inferscale.compat.zep._scope import NO_ONTOLOGY, graph_scope, graph_uuid_of, one_id
from inferscale.compat.zep.types import (
    AddTripleResponse,
    Episode,
    Graph,
    SuccessResponse,
)

_NO_NAMES = "a graph is what is in it; keep its name and description yourself"


class GraphCalls:
    """Methods of `client.graph`, written once for both clients."""

    def add(
        self,
        /,
        *,
        data: str,
        type: str = "text",
        user_id: str | None = None,
        graph_id: str | None = None,
        created_at: str | None = None,
        metadata: dict[str, Any] | None = None,
        source_description: str | None = None,
        document_id: str | None = None,
        strict_ontology: bool | None = None,
    ) -> Flow[Episode]:
        """Remember a text. It can be found when this returns."""
        refuse_given(
            "graph.add", {"strict_ontology": NO_ONTOLOGY}, {"strict_ontology": strict_ontology}
        )
        scope = graph_scope(user_id=user_id, graph_id=graph_id)
        return (
            yield from add_data(
                scope,
                data,
                type,
                created_at=created_at,
                metadata=metadata,
                source_description=source_description,
                document_id=document_id,
            )
        )

    def add_batch(
        self,
        /,
        *,
        episodes: Sequence[Any],
        user_id: str | None = None,
        graph_id: str | None = None,
        document_id: str | None = None,
        strict_ontology: bool | None = None,
    ) -> Flow[list[Episode]]:
        """Remember several texts, one after the other."""
        refuse_given(
            "graph.add_batch",
            {"strict_ontology": NO_ONTOLOGY},
            {"strict_ontology": strict_ontology},
        )
        scope = graph_scope(user_id=user_id, graph_id=graph_id)
        added = []
        for each in episodes:
            fields = dict(each if isinstance(each, dict) else vars(each))
            given = {
                name: fields.get(name) for name in ("created_at", "metadata", "source_description")
            }
            data, kind = fields["data"], fields.get("type", "text")
            added.append((yield from add_data(scope, data, kind, document_id=document_id, **given)))
        return added

    def add_fact_triple(
        self,
        /,
        *,
        fact: str,
        fact_name: str,
        user_id: str | None = None,
        graph_id: str | None = None,
        created_at: str | None = None,
        valid_at: str | None = None,
        invalid_at: str | None = None,
        expired_at: str | None = None,
        source_node_name: str | None = None,
        target_node_name: str | None = None,
        metadata: dict[str, Any] | None = None,
        edge_attributes: dict[str, Any] | None = None,
        **nodes: Any,
    ) -> Flow[AddTripleResponse]:
        """Remember a fact as it is. Its nodes are kept as names only."""
        for name, value in nodes.items():
            if not name.startswith(("source_node_", "target_node_")):
                raise TypeError(f"add_fact_triple() got an unexpected keyword argument {name!r}")
            refuse_given("graph.add_fact_triple", {name: "there are no nodes"}, {name: value})
        scope = graph_scope(user_id=user_id, graph_id=graph_id)
        edge = yield from add_fact(
            scope,
            fact,
            {**(metadata or {}), **(edge_attributes or {})},
            created_at=created_at,
            fact_name=fact_name,
            valid_at=valid_at,
            invalid_at=invalid_at,
            expired_at=expired_at,
            source_node_name=source_node_name,
            target_node_name=target_node_name,
        )
        return AddTripleResponse(edge=edge)

    def create(
        self, /, *, graph_id: str | None = None, idempotency_key: str | None = None, **more: Any
    ) -> Flow[Graph]:
        """A graph without a user. Nothing is stored: a graph is what is in it."""
        for name in more:
            if name not in ("name", "description", "time_zone", "content_policy"):
                raise TypeError(f"create() got an unexpected keyword argument {name!r}")
        refuse_given("graph.create", dict.fromkeys(more, _NO_NAMES), more)
        graph_id = str(uuid.uuid4()) if graph_id is None else graph_id
        yield from ()
        return Graph(graph_id=graph_id, uuid_=graph_id)

    def get(self, /, graph_id: str | None = None, *, graph_uuid: str | None = None) -> Flow[Graph]:
        """A graph. Raises NotFoundError if there is nothing in it."""
        name = one_id(graph_id=graph_id, graph_uuid=graph_uuid)
        some = yield from call("get_all", **graph_scope(graph_uuid=name), limit=1)
        if not some.total:
            raise NotFoundError(f"there is no graph {name!r}: nothing is in it.")
        return Graph(graph_id=name, uuid_=name)

    def delete(
        self,
        /,
        graph_id: str | None = None,
        *,
        graph_uuid: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Forget everything in a graph. It is done when this returns."""
        name = one_id(graph_id=graph_id, graph_uuid=graph_uuid)
        yield from call("delete_all", **graph_scope(graph_uuid=name))
        return SuccessResponse(message="Graph deleted")

    def warm(
        self,
        /,
        graph_id: str | None = None,
        *,
        graph_uuid: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Nothing to do: recall is as fast the first time."""
        yield from ()
        return SuccessResponse()

    def lookup(
        self,
        /,
        *,
        user_id: str | None = None,
        graph_id: str | None = None,
        thread_id: str | None = None,
    ) -> Flow[Graph]:
        """v4: the graph of a user, or the one with this id."""
        yield from ()
        if user_id is not None and graph_id is None:
            return Graph(uuid_=graph_uuid_of(user_id), user_uuid=user_id)
        name = one_id(user_id=user_id, graph_id=graph_id)
        return Graph(graph_id=name, uuid_=name)
