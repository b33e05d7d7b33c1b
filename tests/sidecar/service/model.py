"""Two tenants, random operations, time that passes: service and dict agree, nothing crosses."""

from datetime import datetime
from hashlib import sha256
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import Bundle, invariant, rule
from tests.sidecar.databases import Backend

from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.service.ranking import Ranking

from .fakes import TICK
from .model_writes import WritingMachine, scopes, texts, who

ENGINE = "engine-1"
EVERY_WORD = "red blue a b c d"


class MemoryMachine(WritingMachine):
    """Reads, handles and builds, checked against the model."""

    moments = Bundle("moments")
    handles = Bundle("handles")

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.bank: dict[str, str] = {}

    @rule(t=who, scope=scopes, query=texts, k=st.integers(0, 6), mood=st.none() | st.booleans())
    def search(self, t: int, scope: Scope, query: str, k: int, mood: bool | None) -> None:
        filters = None if mood is None else {"mood": mood}
        hits = self.do(self.memory.search(self.tenants[t], scope, query, limit=k, filters=filters))
        expected = {
            i: known.text
            for i, known in self.there(t, scope).items()
            if mood is None or known.metadata == {"mood": mood}
        }
        assert len(hits) == min(k, len(expected))
        assert all(expected[hit.memory.id] == hit.memory.text for hit in hits)
        assert all(hit.memory.tenant_id == self.tenants[t].id for hit in hits)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        if hits and query in expected.values():
            assert hits[0].memory.text == query

    @rule(t=who, scope=scopes)
    def list_pages(self, t: int, scope: Scope) -> None:
        seen, before = [], None
        while True:
            page = self.do(self.memory.list(self.tenants[t], scope, limit=3, before=before))
            seen += [(memory.id, memory.text) for memory in page.memories]
            if (before := page.next_before) is None:
                break
        expected = [(i, known.text) for i, known in self.there(t, scope).items()]
        assert seen == expected[::-1]
        assert page.total == len(expected)

    @rule(t=who)
    def list_entities(self, t: int) -> None:
        """Of whom there are memories, in the order in which they came."""
        expected: dict[tuple[str, str], int] = {}
        for known in self.there(t).values():
            for named in known.scope.given.items():
                expected[named] = expected.get(named, 0) + 1
        seen, after = [], None
        while True:
            page = self.do(self.memory.entities(self.tenants[t], None, limit=2, after=after))
            seen += [((each.id_name, each.id), each.memories) for each in page.entities]
            if (after := page.next_after) is None:
                break
        assert seen == list(expected.items())
        assert page.total == len(expected)

    @rule(target=handles, t=who, scope=scopes, query=texts, ttl_s=st.integers(1, 200))
    def make_handle(self, t: int, scope: Scope, query: str, ttl_s: int) -> Any:
        work = self.recall.recall(self.tenants[t], scope, query, k=9, ttl_s=ttl_s)
        made = self.do(work)
        return (t, made.handle, {i.memory_id: i.text for i in made.items}, made.expires_at)

    @rule(t=who, handle=handles)
    def use_handle(self, t: int, handle: tuple[int, str, dict[str, str], datetime]) -> None:
        owner, name, items, end = handle
        try:
            composition = self.do(self.recall.resolve(self.tenants[t], name))
        except NotFound:
            assert t != owner or self.clock.now >= end
            return
        assert t == owner and self.clock.now < end + TICK
        there = self.there(t)
        for item in composition.items:
            assert items[item.memory_id] == item.text == there[item.memory_id].text

    @rule(target=moments)
    def note_the_moment(self) -> Any:
        moment = self.clock()  # a look later: what was added at once has times one after the other
        texts = [{i: known.text for i, known in self.there(t).items()} for t in (0, 1)]
        return (moment, texts)

    @rule(t=who, scope=scopes, moment=moments, query=texts, mood=st.none() | st.booleans())
    def look_back(
        self, t: int, scope: Scope, moment: tuple[datetime, Any], query: str, mood: bool | None
    ) -> None:
        as_of, texts = moment
        filters = None if mood is None else {"mood": mood}
        expected = {
            i: texts[t][i]
            for i, known in self.there(t, scope).items()
            if i in texts[t] and (mood is None or known.metadata == {"mood": mood})
        }
        how: Any = {"limit": 99, "filters": filters, "as_of": as_of}
        page = self.do(self.memory.list(self.tenants[t], scope, **how))
        assert {memory.id: memory.text for memory in page.memories} == expected
        hits = self.do(self.memory.search(self.tenants[t], scope, query, **how))
        assert {hit.memory.id: hit.memory.text for hit in hits} == expected
        assert not hits or query not in expected.values() or hits[0].memory.text == query

    @rule(t=who, scope=scopes)
    def look_through_the_indexes(self, t: int, scope: Scope) -> None:
        """Both kinds hold exactly what is there."""
        for mode in ("dense", "keyword"):
            hits = self.do(
                self.memory.search(
                    self.tenants[t], scope, EVERY_WORD, limit=1_000, ranking=Ranking(mode=mode)
                )
            )
            assert {hit.memory.id for hit in hits} == set(self.there(t, scope))

    @rule()
    def build(self) -> None:
        """Builds all that is pending, each behind the one before, and purges."""
        self.do(self.store.drop_expired_kv(self.clock.now))
        items = self.do(self.store.pending_builds(ENGINE, limit=100))
        live = {i for t in (0, 1) for i in self.there(t)}
        assert {item.memory_id for item in items} <= live
        records = []
        for item in items:
            before = self.do(
                self.store.previous_items(item.tenant_id, item.owner, before=item, limit=1)
            )
            behind = tuple(each.memory_id for each in before)
            key = sha256(
                f"{item.tenant_id} {item.memory_id} {item.version} {behind}".encode()
            ).hexdigest()
            self.bank[key] = item.memory_id
            records.append(
                KvItem(item.memory_id, item.version, item.tenant_id, ENGINE, key, 1, behind)
            )
        assert self.do(self.store.put_kv_items(records)) == []
        while keys := self.do(self.store.take_purges(ENGINE, limit=5)):
            for key in keys:
                self.bank.pop(key, None)
            self.do(self.store.finish_purges(keys, fingerprint=ENGINE))
        assert set(self.bank.values()) == live

    @invariant()
    def nothing_contradicts(self) -> None:
        if hasattr(self, "memory"):
            assert self.do(self.store.check_integrity()) == []
