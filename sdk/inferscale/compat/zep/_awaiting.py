"""Zep's sub-clients, awaiting: shells over the flows of `_user`, `_thread`, `_graph`, `_facts`."""

from typing import Any

from inferscale.compat._flow import awaiting
from inferscale.compat.zep._facts import EdgeCalls, EpisodeCalls
from inferscale.compat.zep._graph import GraphCalls
from inferscale.compat.zep._part import Part
from inferscale.compat.zep._search import SearchCalls
from inferscale.compat.zep._thread import ThreadCalls
from inferscale.compat.zep._user import UserCalls


class AsyncUser(Part):
    """`client.user`, awaiting."""

    _path = "user"
    add = awaiting(UserCalls.add)
    create = add
    get = awaiting(UserCalls.get)
    update = awaiting(UserCalls.update)
    delete = awaiting(UserCalls.delete)
    get_threads = awaiting(UserCalls.get_threads)
    warm = awaiting(UserCalls.warm)
    lookup = awaiting(UserCalls.lookup)


class AsyncThread(Part):
    """`client.thread`, awaiting."""

    _path = "thread"
    create = awaiting(ThreadCalls.create)
    add_messages = awaiting(ThreadCalls.add_messages)
    add_messages_batch = add_messages
    get = awaiting(ThreadCalls.get)
    list_messages = awaiting(ThreadCalls.list_messages)
    get_user_context = awaiting(ThreadCalls.get_user_context)
    get_context = awaiting(ThreadCalls.get_context)
    delete = awaiting(ThreadCalls.delete)
    lookup = awaiting(ThreadCalls.lookup)
    list_all = awaiting(ThreadCalls.list_all)
    list = awaiting(ThreadCalls.list_)


class AsyncEdge(Part):
    """`client.graph.edge`, awaiting."""

    _path = "graph.edge"
    add = awaiting(EdgeCalls.add)
    get = awaiting(EdgeCalls.get)
    update = awaiting(EdgeCalls.update)
    delete = awaiting(EdgeCalls.delete)
    get_by_user_id = awaiting(EdgeCalls.get_by_user_id)
    get_by_graph_id = awaiting(EdgeCalls.get_by_graph_id)
    list = awaiting(EdgeCalls.list_)


class AsyncEpisode(Part):
    """`client.graph.episode`, awaiting."""

    _path = "graph.episode"
    add = awaiting(EpisodeCalls.add)
    get = awaiting(EpisodeCalls.get)
    delete = awaiting(EpisodeCalls.delete)
    get_by_user_id = awaiting(EpisodeCalls.get_by_user_id)
    get_by_graph_id = awaiting(EpisodeCalls.get_by_graph_id)


class AsyncGraph(Part):
    """`client.graph`, awaiting."""

    _path = "graph"

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.edge = AsyncEdge(client)
        self.episode = AsyncEpisode(client)

    add = awaiting(GraphCalls.add)
    add_batch = awaiting(GraphCalls.add_batch)
    add_fact_triple = awaiting(GraphCalls.add_fact_triple)
    search = awaiting(SearchCalls.search)
    search_edges = awaiting(SearchCalls.search_edges)
    search_episodes = awaiting(SearchCalls.search_episodes)
    get_context = awaiting(SearchCalls.get_context)
    create = awaiting(GraphCalls.create)
    get = awaiting(GraphCalls.get)
    delete = awaiting(GraphCalls.delete)
    warm = awaiting(GraphCalls.warm)
    lookup = awaiting(GraphCalls.lookup)
