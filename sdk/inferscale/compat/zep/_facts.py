"""Zep's `graph.edge` and `graph.episode` over memories: every memory is both."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import InvalidArgumentError, MemoryRecord, NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse, refuse_given
from inferscale.compat.zep import _shape
from inferscale.compat.zep._add import add_data, add_fact
from inferscale.compat.zep._scope import NO_ONTOLOGY, graph_scope, list_newest
from inferscale.compat.zep.types import (
    AddEdgesResult,
    AddEpisodeResult,
    EntityEdge,
    Episode,
    EpisodeResponse,
    Page,
    SuccessResponse,
)

_KEEPS = "facts keep what they were added with; change the text, or delete and add"
_LISTS = dict.fromkeys(
    ("cursor", "uuid_cursor", "order_by", "order", "direction", "filters"),
    "facts are listed newest first, all or the first `limit`",
)


class EdgeCalls:
    """Methods of `client.graph.edge`, written once for both clients."""

    def add(
        self,
        /,
        graph_uuid: str,
        *,
        edges: Sequence[Any],
        deduplicate: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[AddEdgesResult]:
        """v4: remember facts as they are. The same fact twice is one."""
        if deduplicate is False:
            refuse("graph.edge.add(deduplicate=False)", "the same fact is never stored twice")
        scope = graph_scope(graph_uuid=graph_uuid)
        added = []
        for each in edges:
            fields = dict(each if isinstance(each, Mapping) else vars(each))
            own = {**(fields.get("metadata") or {}), **(fields.get("attributes") or {})}
            names = {
                f"{end}_name": _name(fields.get(end)) for end in ("source_node", "target_node")
            }
            times = {name: fields.get(name) for name in ("valid_at", "invalid_at", "expired_at")}
            name = fields.get("fact_name")
            edge = yield from add_fact(scope, fields["fact"], own, fact_name=name, **names, **times)
            added.append(edge)
        return AddEdgesResult(edges=added)

    def get(
        self,
        /,
        graph_uuid: str | None = None,
        edge_uuid: str | None = None,
        *,
        uuid_: str | None = None,
    ) -> Flow[EntityEdge]:
        """A fact: `get(uuid_)` in v3, `get(graph_uuid, edge_uuid)` in v4."""
        return _shape.edge((yield from _read(graph_uuid, edge_uuid, uuid_)))

    def update(
        self,
        /,
        graph_uuid: str | None = None,
        edge_uuid: str | None = None,
        *,
        uuid_: str | None = None,
        fact: str | None = None,
        **more: Any,
    ) -> Flow[EntityEdge]:
        """A new text for a fact."""
        refuse_given("graph.edge.update", dict.fromkeys(more, _KEEPS), more)
        record = yield from _read(graph_uuid, edge_uuid, uuid_)
        changed = yield from call("update", record.id, text=fact)
        return _shape.edge(changed)

    def delete(
        self,
        /,
        graph_uuid: str | None = None,
        edge_uuid: str | None = None,
        *,
        uuid_: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Forget a fact. Raises NotFoundError if there is none with this id."""
        return (yield from _delete(graph_uuid, edge_uuid, uuid_))

    def get_by_user_id(
        self, /, user_id: str, *, limit: int | None = None, **order: Any
    ) -> Flow[list[EntityEdge]]:
        """v3: a user's facts, newest first."""
        refuse_given("graph.edge.get_by_user_id", _LISTS, order)
        return [_shape.edge(each) for each in (yield from list_newest({"user_id": user_id}, limit))]

    def get_by_graph_id(
        self, /, graph_id: str, *, limit: int | None = None, **order: Any
    ) -> Flow[list[EntityEdge]]:
        """v3: the facts of a graph, newest first."""
        refuse_given("graph.edge.get_by_graph_id", _LISTS, order)
        return [
            _shape.edge(each) for each in (yield from list_newest({"agent_id": graph_id}, limit))
        ]

    def list_(
        self, /, graph_uuid: str, *, page_size: int | None = None, **order: Any
    ) -> Flow[Page[EntityEdge]]:
        """v4: the facts of a graph, newest first: all, or `page_size` of them."""
        refuse_given("graph.edge.list", _LISTS, order)
        found = yield from list_newest(graph_scope(graph_uuid=graph_uuid), page_size)
        return Page([_shape.edge(each) for each in found])


class EpisodeCalls:
    """Methods of `client.graph.episode`, written once for both clients."""

    def add(
        self,
        /,
        graph_uuid: str,
        *,
        data: str,
        type: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        reference_time: str | None = None,
        source_description: str | None = None,
        document_id: str | None = None,
        strict_ontology: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[AddEpisodeResult]:
        """v4: remember a text. It can be found when this returns."""
        given = {"strict_ontology": strict_ontology}
        refuse_given("graph.episode.add", {"strict_ontology": NO_ONTOLOGY}, given)
        episode = yield from add_data(
            graph_scope(graph_uuid=graph_uuid),
            data,
            type,
            created_at=reference_time,
            metadata=metadata,
            idempotency_key=idempotency_key,
            source_description=source_description,
            document_id=document_id,
        )
        return AddEpisodeResult(episode=episode)

    def get(
        self,
        /,
        graph_uuid: str | None = None,
        episode_uuid: str | None = None,
        *,
        uuid_: str | None = None,
    ) -> Flow[Episode]:
        """What was added: `get(uuid_)` in v3, `get(graph_uuid, episode_uuid)` in v4."""
        return _shape.episode((yield from _read(graph_uuid, episode_uuid, uuid_)))

    def delete(
        self,
        /,
        graph_uuid: str | None = None,
        episode_uuid: str | None = None,
        *,
        uuid_: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Forget it. Raises NotFoundError if there is none with this id."""
        return (yield from _delete(graph_uuid, episode_uuid, uuid_))

    def get_by_user_id(self, /, user_id: str, *, lastn: int | None = None) -> Flow[EpisodeResponse]:
        """v3: what was added for a user, newest first."""
        found = yield from list_newest({"user_id": user_id}, lastn)
        return EpisodeResponse(episodes=[_shape.episode(each) for each in found])

    def get_by_graph_id(
        self, /, graph_id: str, *, lastn: int | None = None
    ) -> Flow[EpisodeResponse]:
        """v3: what was added to a graph, newest first."""
        found = yield from list_newest({"agent_id": graph_id}, lastn)
        return EpisodeResponse(episodes=[_shape.episode(each) for each in found])


def _read(graph_uuid: str | None, memory_id: str | None, uuid_: str | None) -> Flow[MemoryRecord]:
    """The memory, and for v4 only if it lies in that graph."""
    if memory_id is None:
        graph_uuid, memory_id = None, uuid_ or graph_uuid
    if memory_id is None:
        raise InvalidArgumentError("an id is needed.")
    record: MemoryRecord | None = yield from call("get", memory_id)
    scope = {} if graph_uuid is None else graph_scope(graph_uuid=graph_uuid)
    if record is None or any(record[name] != value for name, value in scope.items()):
        raise NotFoundError(f"there is nothing with the id {memory_id!r}.")
    return record


def _delete(
    graph_uuid: str | None, memory_id: str | None, uuid_: str | None
) -> Flow[SuccessResponse]:
    record = yield from _read(graph_uuid, memory_id, uuid_)
    yield from call("delete", record.id)
    return SuccessResponse()


def _name(node: Any) -> str | None:
    fields = node if isinstance(node, Mapping) else vars(node) if node is not None else {}
    found: str | None = fields.get("name")
    return found
