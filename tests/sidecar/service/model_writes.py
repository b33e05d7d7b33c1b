"""The writing half of the model: a dict of each tenant's memories, beside the real service."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
)
from tests.sidecar.databases import Backend

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import Conflict, NotFound
from inferscale_sidecar.index import FaissFlatIndex
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.sweep import Sweeper
from inferscale_sidecar.store import SqlStore

from .fakes import TICK, Clock, HashEmbedder, ListFrame

who = st.integers(0, 1)
SCOPES = [
    Scope(user_id="u"),
    Scope(user_id="v"),
    Scope(agent_id="u"),
    Scope(user_id="u", agent_id="u"),
    Scope(user_id="u", run_id="r"),
    Scope(user_id="u", app_id="p"),
    Scope(app_id="p"),
]
scopes = st.sampled_from(SCOPES)
lifetimes = st.none() | st.integers(1, 120)
TEXTS = [f"{color} {thing}" for color in ("red", "blue") for thing in "abcd"]
texts = st.sampled_from(TEXTS)


def _covers(asked: Scope, scope: Scope) -> bool:
    pairs = zip(_ids(asked), _ids(scope), strict=True)
    return all(wanted in (None, has) for wanted, has in pairs)


def _ids(scope: Scope) -> tuple[str | None, ...]:
    return (scope.user_id, scope.agent_id, scope.run_id, scope.app_id)


@dataclass
class Known:
    """What the model knows of a memory."""

    scope: Scope
    text: str
    metadata: dict[str, Any] | None
    end: datetime | None

    def is_there(self, now: datetime) -> bool:
        return self.end is None or self.end > now


class WritingMachine(RuleBasedStateMachine):
    """`model[tenant][memory id]`, beside the real thing; what has expired is swept from both."""

    memories = Bundle("memories")

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.backend = backend
        self.url = backend.create(with_tables=True)
        self.model: list[dict[str, Known]] = [{}, {}]
        self.clock = Clock()

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
        self.store = self.open_store()
        self.do(self.store.start())
        self.tenants = [self.do(self.store.create_tenant(name)) for name in ("one", "two")]
        self.create_services()

    def open_store(self) -> SqlStore:
        return SqlStore(self.url, clock=self.clock)

    def create_services(self) -> None:
        embedder, metrics = HashEmbedder(), Metrics()
        clock: Any = {"clock": self.clock}
        searcher = Searcher(self.store, embedder, metrics, create_index=FaissFlatIndex, **clock)
        self.memory = MemoryService(self.store, embedder, searcher, metrics, **clock)
        self.recall = RecallService(self.store, searcher, ListFrame(), metrics, **clock)
        self.sweeper = Sweeper(self.store, every_s=60, keep_s=30, **clock)

    @rule()
    def restart(self) -> None:
        """Another process takes over, as after a crash: nothing was put in order before."""
        crashed, self.store = self.store, self.open_store()
        self.do(self.store.start())
        self.create_services()
        self.do(crashed.close())  # for the test's sake: it leaves no connection open

    def teardown(self) -> None:
        self.do(self.store.close())
        self.loop.close()
        self.backend.drop(self.url)

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

    @rule(t=who, scope=scopes, mood=st.booleans(), dry_run=st.booleans())
    def delete_where(self, t: int, scope: Scope, mood: bool, dry_run: bool) -> None:
        gone = [i for i, k in self.there(t, scope).items() if k.metadata == {"mood": mood}]
        ids, removed = self.do(
            self.memory.delete_where(self.tenants[t], scope, {"mood": mood}, dry_run=dry_run)
        )
        assert list(ids) == gone[::-1]
        assert removed.memories == (0 if dry_run else len(gone))
        for memory_id in () if dry_run else gone:
            del self.model[t][memory_id]

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
