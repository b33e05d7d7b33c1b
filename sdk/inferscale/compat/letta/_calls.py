"""Letta's passages over memories, as flows.

Owns how tags and times become filters. Invariant: tags are kept as `tags` in the metadata, and do
not show there.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from inferscale import InvalidArgumentError, MemoryRecord, NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse, refuse_given
from inferscale.compat.letta.types import (
    Passage,
    PassageSearchResponse,
    PassageSearchResponseItem,
    SearchResult,
)

_TOP_K = 10
_TAGS = "tags"
_Time = str | datetime | None


class AgentPassageCalls:
    """Methods of `client.agents.passages`, written once for both clients."""

    def create(
        self,
        /,
        agent_id: str,
        *,
        text: str,
        created_at: _Time = None,
        tags: Sequence[str] | None = None,
    ) -> Flow[list[Passage]]:
        """Remember a text. The same text again gives the passage that is there, with all tags."""
        reason = "memories carry the time at which they are added; put another one into the text"
        refuse_given("passages.create", {"created_at": reason}, {"created_at": created_at})
        metadata = {_TAGS: list(tags)} if tags else None
        added = yield from call("add", text, agent_id=agent_id, metadata=metadata, infer=False)
        passages = []
        for each in added.results:
            record = yield from call("get", each.id)
            missing = [tag for tag in tags or () if tag not in (_tags(record) or ())]
            if missing:
                merged = {**(record.metadata or {}), _TAGS: [*(_tags(record) or ()), *missing]}
                record = yield from call("update", each.id, metadata=merged)
            passages.append(_passage(record))
        return passages

    def list_(
        self,
        /,
        agent_id: str,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        search: str | None = None,
        ascending: bool | None = None,
    ) -> Flow[list[Passage]]:
        """Passages, oldest first unless `ascending=False`: all, unless `limit` is given.

        Args:
            after, before: only what comes after or before the passage with this id.
            search: only those whose text contains it, letter case ignored.
        """
        everything = list((yield from call("get_all", agent_id=agent_id)).results)
        if ascending is not False:
            everything.reverse()
        ids = [record.id for record in everything]
        start = 0 if after is None else _position(ids, after) + 1
        end = len(ids) if before is None else _position(ids, before)
        wanted = (search or "").casefold()
        found = [each for each in everything[start:end] if wanted in each.memory.casefold()]
        return [_passage(record) for record in found[:limit]]

    def search(
        self,
        /,
        agent_id: str,
        *,
        query: str,
        tags: Sequence[str] | None = None,
        tag_match_mode: str | None = None,
        start_datetime: _Time = None,
        end_datetime: _Time = None,
        top_k: int | None = None,
    ) -> Flow[PassageSearchResponse]:
        """Passages like `query`, best first: at most `top_k` (10 if not given)."""
        filters = _filters(tags, tag_match_mode, start_datetime, end_datetime)
        size = _TOP_K if top_k is None else top_k
        found = yield from call("search", query, agent_id=agent_id, limit=size, filters=filters)
        results = [
            SearchResult(
                id=hit.id, content=hit.memory, timestamp=hit["created_at"], tags=_tags(hit)
            )
            for hit in found.results
        ]
        return PassageSearchResponse(count=len(results), results=results)

    def delete(self, /, memory_id: str, *, agent_id: str) -> Flow[None]:
        """Forget a passage. Raises NotFoundError if the agent has none with this id."""
        record = yield from call("get", memory_id)
        if record is None or record.agent_id != agent_id:
            raise NotFoundError(f"agent {agent_id!r} has no passage {memory_id!r}.")
        yield from call("delete", memory_id)


class PassageCalls:
    """Methods of `client.passages`, written once for both clients."""

    def search(
        self,
        /,
        *,
        query: str | None = None,
        agent_id: str | None = None,
        archive_id: str | None = None,
        limit: int | None = None,
        tags: Sequence[str] | None = None,
        tag_match_mode: str | None = None,
        start_date: _Time = None,
        end_date: _Time = None,
    ) -> Flow[list[PassageSearchResponseItem]]:
        """Passages of one agent like `query`, with scores, best first."""
        if archive_id is not None or agent_id is None or query is None:
            refuse(
                "passages.search() without agent_id and query, or with archive_id",
                "the memories of one agent are searched at a time, by meaning",
            )
        filters = _filters(tags, tag_match_mode, start_date, end_date)
        size = _TOP_K if limit is None else limit
        found = yield from call("search", query, agent_id=agent_id, limit=size, filters=filters)
        return [
            PassageSearchResponseItem(passage=_passage(hit), score=hit.score)
            for hit in found.results
        ]


def _filters(
    tags: Sequence[str] | None, mode: str | None, start: _Time, end: _Time
) -> dict[str, Any] | None:
    """Conditions in the SDK's form, or None. A list has a tag if one of its elements is it."""
    if mode not in (None, "any", "all"):
        raise InvalidArgumentError(f"tag_match_mode is {mode!r}; it must be 'any' or 'all'.")
    wanted: list[dict[str, Any]] = []
    if tags and mode == "all":
        wanted += [{_TAGS: tag} for tag in tags]
    elif tags:
        wanted.append({_TAGS: {"in": list(tags)}})
    for operator, time in (("gte", start), ("lte", end)):
        if time is not None:
            text = time.isoformat() if isinstance(time, datetime) else time
            wanted.append({"created_at": {operator: text}})
    return {"AND": wanted} if wanted else None


def _passage(record: MemoryRecord) -> Passage:
    own = {name: value for name, value in (record.metadata or {}).items() if name != _TAGS}
    return Passage(
        id=record.id,
        text=record.memory,
        tags=_tags(record),
        metadata=own or None,
        created_at=record.created_at,
        updated_at=record.updated_at,
    )


def _tags(record: MemoryRecord) -> list[str] | None:
    """The tags, if what the metadata has under that name are some."""
    tags = (record.metadata or {}).get(_TAGS)
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        return list(tags)
    return None


def _position(ids: list[str], wanted: str) -> int:
    if wanted not in ids:
        raise NotFoundError(f"the agent has no passage {wanted!r} to list from.")
    return ids.index(wanted)
