"""Two tenants, random operations, time that passes: service and dict agree, nothing crosses."""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.errors import Conflict, NotFound
from inferscale_sidecar.index import FaissFlatIndex
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.sweep import Sweeper
from inferscale_sidecar.store import SqlStore, sqlite_url

from .fakes import TICK, Clock, HashEmbedder, ListFrame

ENGINE = "engine-1"
who = st.integers(0, 1)
scopes = st.sampled_from(
    [
        Scope(user_id="u"),
        Scope(user_id="v"),
        Scope(agent_id="u"),
        Scope(user_id="u", agent_id="u"),
        Scope(user_id="u", run_id="r"),
    ]
)
lifetimes = st.none() | st.integers(1, 120)
texts = st.sampled_from([f"{color} {thing}" for color in ("red", "blue") for thing in "abcd"])


def _covers(asked: Scope, scope: Scope) -> bool:
    pairs = zip(_ids(asked), _ids(scope), strict=True)
    return all(wanted in (None, has) for wanted, has in pairs)


def _ids(scope: Scope) -> tuple[str | None, ...]:
    return (scope.user_id, scope.agent_id, scope.run_id)


@dataclass
class Known:
    """What the model knows of a memory."""

    scope: Scope
    text: str
    metadata: dict[str, Any] | None
    end: datetime | None

    def is_there(self, now: datetime) -> bool:
        return self.end is None or self.end > now


class MemoryMachine(RuleBasedStateMachine):
    """`model[tenant][memory id]`, beside the real thing; what has expired is swept from both."""

    memories = Bundle("memories")
    moments = Bundle("moments")
    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.model: list[dict[str, Known]] = [{}, {}]
        self.clock = Clock()
        self.bank: dict[str, str] = {}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def there(self, t: int, scope: Scope | None = None) -> dict[str, Known]:
        """What a reader finds now, in the order of creation."""
        return {
            i: known
            for i, known in self.model[t].items()
            if known.is_there(self.clock.now) and (scope is None or _covers(scope, known.scope))
        }

    @initialize()
    def start(self) -> None:
        path = Path(self.folder.name) / "memory.db"
        self.store = SqlStore(sqlite_url(path), clock=self.clock)
        self.do(self.store.start())
        self.tenants = [self.do(self.store.create_tenant(name)) for name in ("one", "two")]
        embedder, metrics = HashEmbedder(), Metrics()
        clock: Any = {"clock": self.clock}
        searcher = Searcher(self.store, embedder, metrics, create_index=FaissFlatIndex, **clock)
        self.memory = MemoryService(self.store, embedder, searcher, metrics, **clock)
        self.recall = RecallService(self.store, searcher, ListFrame(), metrics, **clock)
        self.sweeper = Sweeper(self.store, every_s=60, keep_s=30, **clock)

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    @rule(
        target=memories,
        t=who,
        scope=scopes,
        batch=st.lists(texts, max_size=4),
        mood=st.booleans(),
        ttl_s=lifetimes,
    )
    def add(self, t: int, scope: Scope, batch: list[str], mood: bool, ttl_s: int | None) -> Any:
        there = {k.text: i for i, k in self.there(t).items() if k.scope == scope}
        old = {k.text: i for i, k in self.model[t].items() if k.scope == scope}
        messages, options = [Message(content=text) for text in batch], {"mood": mood}
        results = self.do(
            self.memory.add(self.tenants[t], scope, messages, metadata=options, ttl_s=ttl_s)
        )
        assert [r.memory.text for r in results] == batch
        for result in results:
            made = result.memory
            if result.event == "NOOP":
                assert there[made.text] == made.id
                known = self.model[t][made.id]
                assert known.end is None or (made.expires_at or known.end) >= known.end
                known.end = made.expires_at
            else:
                assert made.text not in there
                self.model[t].pop(old.get(made.text, ""), None)  # it had expired
                there[made.text] = made.id
                self.model[t][made.id] = Known(scope, made.text, options, made.expires_at)
            assert ttl_s is None or made.expires_at is None or made.expires_at > self.clock.now
            assert ttl_s is not None or made.expires_at is None
        return (t, results[0].memory.id) if results else (t, "nothing")

    @rule(t=who, memory=memories, text=texts, ttl_s=lifetimes)
    def update(self, t: int, memory: tuple[int, str], text: str, ttl_s: int | None) -> None:
        _, memory_id = memory
        there = self.there(t)
        known = there.get(memory_id)
        try:
            changed = self.do(
                self.memory.update(self.tenants[t], memory_id, text=text, ttl_s=ttl_s)
            )
        except NotFound:
            assert known is None
        except Conflict:
            assert known is not None
            assert any(
                i != memory_id and (k.scope, k.text) == (known.scope, text)
                for i, k in there.items()
            )
        else:
            assert known is not None
            assert changed.text == text
            for i, other in list(self.model[t].items()):
                if i != memory_id and (other.scope, other.text) == (known.scope, text):
                    del self.model[t][i]  # it had expired, and stood in the way
            known.text, known.end = text, changed.expires_at

    @rule(t=who, memory=consumes(memories))
    def delete(self, t: int, memory: tuple[int, str]) -> None:
        try:
            removed = self.do(self.memory.delete(self.tenants[t], memory[1]))
        except NotFound:
            assert memory[1] not in self.model[t]
        else:
            assert removed.memories == 1
            del self.model[t][memory[1]]

    @rule(t=who, scope=scopes)
    def delete_all(self, t: int, scope: Scope) -> None:
        gone = [i for i, known in self.model[t].items() if _covers(scope, known.scope)]
        assert self.do(self.memory.delete_all(self.tenants[t], scope)).memories == len(gone)
        for memory_id in gone:
            del self.model[t][memory_id]

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

    @rule(target=handles, t=who, scope=scopes, query=texts)
    def make_handle(self, t: int, scope: Scope, query: str) -> Any:
        composition = self.do(self.recall.recall(self.tenants[t], scope, query, k=9))
        return (t, composition.handle, {i.memory_id: i.text for i in composition.items})

    @rule(t=who, handle=handles)
    def use_handle(self, t: int, handle: tuple[int, str, dict[str, str]]) -> None:
        owner, name, items = handle
        try:
            composition = self.do(self.recall.resolve(self.tenants[t], name))
        except NotFound:
            assert t != owner
            return
        assert t == owner
        there = self.there(t)
        for item in composition.items:
            assert items[item.memory_id] == item.text == there[item.memory_id].text

    @rule(target=moments)
    def note_the_moment(self) -> Any:
        texts = [{i: known.text for i, known in self.there(t).items()} for t in (0, 1)]
        return (self.clock.now, texts)

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

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @rule()
    def sweep(self) -> None:
        until = self.clock.now + TICK - timedelta(seconds=30)
        removed = self.do(self.sweeper.sweep())
        left = [
            {i: known for i, known in tenant.items() if known.is_there(until)}
            for tenant in self.model
        ]
        assert removed.memories == sum(map(len, self.model)) - sum(map(len, left))
        self.model = left

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
            key = f"{item.tenant_id} {item.memory_id} {item.version} {behind}"
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


MemoryMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=40, deadline=None, derandomize=True
)
TestMemory = MemoryMachine.TestCase
