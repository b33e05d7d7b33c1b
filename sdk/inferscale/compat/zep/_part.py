"""What every sub-client of Zep's is: its methods, and reasons for those that are missing."""

from collections.abc import Mapping
from typing import Any, ClassVar

from inferscale.compat._refuse import Absent

_NO_NODES = "there are no nodes; every memory is a fact"
_NO_SUMMARIES = "there are no summaries; use thread.get_context"
_FACTS_ONLY = "InferScale keeps facts, not a graph"
_NO_LISTS = "the sidecar lists neither users nor graphs; keep their ids yourself"
_REASONS: Mapping[str, str] = {
    "user.get_node": _NO_NODES,
    "user.list": _NO_LISTS,
    "user.list_ordered": _NO_LISTS,
    "thread.get_summary": _NO_SUMMARIES,
    "thread.get_episodes": "use thread.get; every message is an episode",
    "thread.list_episodes": "use thread.list_messages; every message is an episode",
    "thread.message": "messages are kept as they were said; delete a thread, or a fact",
    "graph.list": _NO_LISTS,
    "graph.list_all": _NO_LISTS,
    "graph.node": _NO_NODES,
    "graph.add_nodes": _NO_NODES,
    "graph.search_nodes": _NO_NODES,
    "graph.search_observations": _FACTS_ONLY,
    "graph.search_thread_summaries": _NO_SUMMARIES,
    "graph.thread_summary": _NO_SUMMARIES,
}


class Part:
    """A sub-client. What Zep's has and this has not is there, and raises with the reason."""

    _path: ClassVar[str]

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        return Absent(path, _REASONS.get(path, _FACTS_ONLY))
