"""The reading methods of `Memory`; `_async_read_client` has the same for `AsyncMemory`.

Owns signatures only; requests are made by `_operations`, several for one call by `_exchange`.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import _entity_operations, _exchange, _operations
from inferscale._dialect import one_limit
from inferscale._handle import MemoryHandle
from inferscale._listing import Time, list_page, listing, reading
from inferscale._results import EntityList, ListResult, MemoryRecord, SearchResult
from inferscale._transport import SyncTransport
from inferscale.protocol.entities import EntityType
from inferscale.protocol.memory import SearchMode


class ReadMethods:
    """The part of `Memory` that finds what was remembered."""

    _transport: SyncTransport

    def get(
        self, memory_id: str, *, show_expired: bool = False, as_of: Time = None
    ) -> MemoryRecord | None:
        """One memory, or None if there is none with this id."""
        return self._transport.call(
            _operations.get(memory_id, show_expired=show_expired, as_of=as_of)
        )

    def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        cursor: str | None = None,
        offset: int | None = None,
        show_expired: bool = False,
        as_of: Time = None,
        **mem0: Any,
    ) -> ListResult:
        """Memories of a scope, newest first: all, or one page if `limit`, `cursor` or `offset` is
        given.

        Args:
            user_id, agent_id, run_id, app_id: whose memories; at least one, here or in `filters`.
            filters: as in `search`.
            limit, top_k: size of the page.
            cursor: `next_cursor` of the page before.
            offset: leave out so many of the newest; a cursor is faster.
            show_expired: True for what has expired too, as long as it is not removed.
            as_of: an earlier time (with its offset), to read what was there then.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        what = listing(scope, filters, reading(show_expired, as_of), mem0)
        size = one_limit(None, limit=limit, top_k=top_k)
        if size is None and cursor is None and offset is None:
            return self._transport.run(_exchange.list_all(what, self._transport.policy))
        return self._transport.call(list_page(what, limit=size, cursor=cursor, offset=offset))

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        mode: SearchMode | None = None,
        diversity: float | None = None,
        recency_days: float | None = None,
        rerank: bool | None = None,
        explain: bool | None = None,
        show_expired: bool = False,
        as_of: Time = None,
        **mem0: Any,
    ) -> SearchResult:
        """Memories like `query`, best first. Ids may stand in `filters`, as in Mem0 2.x.

        Args:
            limit, top_k: at most so many (default 10).
            threshold: least score, in [-1, 1].
            filters: conditions on metadata.
            mode: "hybrid" (meaning and shared words, the default), "dense" or "keyword".
            diversity: 0 to 1; how much a hit loses for being like a better one.
            recency_days: prefer what is new; after so many days the bonus is half.
            rerank: True to have the sidecar's reranker order the best (its setting rerank.model).
            explain: True to have each hit's `details` say what its score is made of.
            show_expired, as_of: as in `get_all`.
        """
        operation = _operations.search(
            query,
            scope={"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id},
            limit=one_limit(None, limit=limit, top_k=top_k),
            threshold=threshold,
            filters=filters,
            ranking={
                "mode": mode,
                "diversity": diversity,
                "recency_days": recency_days,
                "rerank": rerank or None,
                "explain": explain,
            },
            show_expired=show_expired,
            as_of=as_of,
            extra=mem0,
        )
        return self._transport.call(operation)

    def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        mode: SearchMode | None = None,
        diversity: float | None = None,
        recency_days: float | None = None,
        rerank: bool | None = None,
        max_tokens: int | None = None,
        as_of: Time = None,
        ttl_s: int | None = None,
    ) -> MemoryHandle:
        """Freeze pinned blocks and the memories for `query` into a handle, to attach to requests.

        Args:
            k: at most so many (default 20).
            threshold, filters: as in `search`.
            max_tokens: at most so many tokens of text: pinned blocks first, then the best.
            as_of: an earlier time, whose memories are recalled; blocks are those of now.
            ttl_s: seconds until the handle expires (default one day).
        """
        operation = _operations.recall(
            query,
            scope={"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id},
            k=k,
            threshold=threshold,
            filters=filters,
            ranking={
                "mode": mode,
                "diversity": diversity,
                "recency_days": recency_days,
                "rerank": rerank or None,
            },
            max_tokens=max_tokens,
            as_of=as_of,
            ttl_s=ttl_s,
        )
        return self._transport.call(operation)

    def entities(
        self,
        type: EntityType | None = None,
        *,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EntityList:
        """Of whom there are memories, oldest first: all, or one page.

        Args:
            type: "user", "agent", "run" or "app"; None: all four.
        """
        if limit is None and cursor is None:
            policy = self._transport.policy
            return self._transport.run(_entity_operations.list_all(type, policy))
        return self._transport.call(_entity_operations.list_page(type, limit=limit, cursor=cursor))
