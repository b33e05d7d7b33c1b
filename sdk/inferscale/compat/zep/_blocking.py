"""Zep's sub-clients, blocking: shells over the flows of `_user`, `_thread`, `_graph`, `_facts`."""

from typing import Any

from inferscale.compat._flow import blocking
from inferscale.compat.zep._facts import EdgeCalls, EpisodeCalls
from inferscale.compat.zep._graph import GraphCalls
from inferscale.compat.zep._part import Part
from inferscale.compat.zep._search import SearchCalls
from inferscale.compat.zep._thread import ThreadCalls
from inferscale.compat.zep._user import UserCalls


class User(Part):
    """`client.user`, blocking."""

    _path = "user"
    add = blocking(UserCalls.add)
    create = add
    get = blocking(UserCalls.get)
    update = blocking(UserCalls.update)
    delete = blocking(UserCalls.delete)
    get_threads = blocking(UserCalls.get_threads)
    warm = blocking(UserCalls.warm)
    lookup = blocking(UserCalls.lookup)


class Thread(Part):
    """`client.thread`, blocking."""

    _path = "thread"
    create = blocking(ThreadCalls.create)
    add_messages = blocking(ThreadCalls.add_messages)
    add_messages_batch = add_messages
    get = blocking(ThreadCalls.get)
    list_messages = blocking(ThreadCalls.list_messages)
    get_user_context = blocking(ThreadCalls.get_user_context)
    get_context = blocking(ThreadCalls.get_context)
    delete = blocking(ThreadCalls.delete)
    lookup = blocking(ThreadCalls.lookup)
    list_all = blocking(ThreadCalls.list_all)
    list = blocking(ThreadCalls.list_)


class Edge(Part):
    """`client.graph.edge`, blocking."""

    _path = "graph.edge"
    add = blocking(EdgeCalls.add)
    get = blocking(EdgeCalls.get)
    update = blocking(EdgeCalls.update)
    delete = blocking(EdgeCalls.delete)
    get_by_user_id = blocking(EdgeCalls.get_by_user_id)
    get_by_graph_id = blocking(EdgeCalls.get_by_graph_id)
    list = blocking(EdgeCalls.list_)


class Episode(Part):
    """`client.graph.episode`, blocking."""

    _path = "graph.episode"
    add = blocking(EpisodeCalls.add)
    get = blocking(EpisodeCalls.get)
    delete = blocking(EpisodeCalls.delete)
    get_by_user_id = blocking(EpisodeCalls.get_by_user_id)
    get_by_graph_id = blocking(EpisodeCalls.get_by_graph_id)


class Graph(Part):
    """`client.graph`, blocking."""

    _path = "graph"

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.edge = Edge(client)
        self.episode = Episode(client)

    add = blocking(GraphCalls.add)
    add_batch = blocking(GraphCalls.add_batch)
    add_fact_triple = blocking(GraphCalls.add_fact_triple)
    search = blocking(SearchCalls.search)
    search_edges = blocking(SearchCalls.search_edges)
    search_episodes = blocking(SearchCalls.search_episodes)
    get_context = blocking(SearchCalls.get_context)
    create = blocking(GraphCalls.create)
    get = blocking(GraphCalls.get)
    delete = blocking(GraphCalls.delete)
    warm = blocking(GraphCalls.warm)
    lookup = blocking(GraphCalls.lookup)
