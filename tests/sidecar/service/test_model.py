"""Two tenants, random operations: the service and a dict agree, and nothing crosses."""

import asyncio
import tempfile
from collections.abc import Coroutine
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
from inferscale_sidecar.store import SqlStore, sqlite_url

from .fakes import HashEmbedder, ListFrame

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
texts = st.sampled_from([f"{color} {thing}" for color in ("red", "blue") for thing in "abcd"])


def _covers(asked: Scope, scope: Scope) -> bool:
    pairs = zip(_ids(asked), _ids(scope), strict=True)
    return all(wanted in (None, has) for wanted, has in pairs)


def _ids(scope: Scope) -> tuple[str | None, ...]:
    return (scope.user_id, scope.agent_id, scope.run_id)


class MemoryMachine(RuleBasedStateMachine):
    """`model[tenant][memory id] = (scope, text, metadata)`, beside the real thing."""

    memories = Bundle("memories")
    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.model: list[dict[str, tuple[Scope, str, dict[str, Any] | None]]] = [{}, {}]
        self.bank: dict[str, str] = {}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def start(self) -> None:
        self.store = SqlStore(sqlite_url(Path(self.folder.name) / "memory.db"))
        self.do(self.store.start())
        self.tenants = [self.do(self.store.create_tenant(name)) for name in ("one", "two")]
        embedder, metrics = HashEmbedder(), Metrics()
        searcher = Searcher(self.store, embedder, metrics, create_index=FaissFlatIndex)
        self.memory = MemoryService(self.store, embedder, searcher, metrics)
        self.recall = RecallService(self.store, searcher, ListFrame(), metrics)

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    @rule(
        target=memories, t=who, scope=scopes, batch=st.lists(texts, max_size=4), mood=st.booleans()
    )
    def add(self, t: int, scope: Scope, batch: list[str], mood: bool) -> Any:
        there = {text: i for i, (s, text, _) in self.model[t].items() if s == scope}
        messages = [Message(content=text) for text in batch]
        results = self.do(
            self.memory.add(self.tenants[t], scope, messages, metadata={"mood": mood})
        )
        assert [r.memory.text for r in results] == batch
        for result in results:
            if result.event == "NOOP":
                assert there[result.memory.text] == result.memory.id
            else:
                assert result.memory.text not in there
                there[result.memory.text] = result.memory.id
                self.model[t][result.memory.id] = (scope, result.memory.text, {"mood": mood})
        return (t, results[0].memory.id) if results else (t, "nothing")

    @rule(t=who, memory=memories, text=texts)
    def update(self, t: int, memory: tuple[int, str], text: str) -> None:
        _, memory_id = memory
        known = self.model[t].get(memory_id)
        try:
            changed = self.do(self.memory.update(self.tenants[t], memory_id, text=text))
        except NotFound:
            assert known is None
        except Conflict:
            assert known is not None
            assert any(
                i != memory_id and (s, x) == (known[0], text)
                for i, (s, x, _) in self.model[t].items()
            )
        else:
            assert known is not None
            assert changed.text == text
            self.model[t][memory_id] = (known[0], text, known[2])

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
        gone = [i for i, (s, _, _) in self.model[t].items() if _covers(scope, s)]
        assert self.do(self.memory.delete_all(self.tenants[t], scope)).memories == len(gone)
        for memory_id in gone:
            del self.model[t][memory_id]

    @rule(t=who, scope=scopes, query=texts, k=st.integers(0, 6), mood=st.none() | st.booleans())
    def search(self, t: int, scope: Scope, query: str, k: int, mood: bool | None) -> None:
        filters = None if mood is None else {"mood": mood}
        hits = self.do(self.memory.search(self.tenants[t], scope, query, limit=k, filters=filters))
        expected = {
            i: text
            for i, (s, text, metadata) in self.model[t].items()
            if _covers(scope, s) and (mood is None or metadata == {"mood": mood})
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
        expected = [(i, x) for i, (s, x, _) in self.model[t].items() if _covers(scope, s)]
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
        for item in composition.items:
            assert items[item.memory_id] == item.text == self.model[t][item.memory_id][1]

    @rule()
    def build(self) -> None:
        """Builds all that is pending, each behind the one before, and purges."""
        items = self.do(self.store.pending_builds(ENGINE, limit=100))
        live = {i for tenant in self.model for i in tenant}
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
