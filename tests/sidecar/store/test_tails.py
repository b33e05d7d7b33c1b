"""Tails of conversations: purged in time, and at once when whoever they belong to is forgotten."""

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from inferscale_sidecar.core import Scope, Tail
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.thread_port import MessageDraft

from .full_store import dump

TENANT, BANK = "default", "engine-1"
ALICE, BOB = Scope("alice"), Scope("bob")
Keep = Callable[..., Awaitable[bool]]
SCOPES = [Scope(*ids) for ids in product((None, "a", "b"), repeat=4) if any(ids)]


@pytest.fixture
def keep(store: SqlStore, clock: Any) -> Keep:
    """Keeps a tail for an hour, asked for now, unless it says otherwise."""

    async def keep(key: str, scope: Scope, tenant: str = TENANT, **more: Any) -> bool:
        tail = Tail(scope, more.get("asked_at", clock()), more.get("keep_s", 3600))
        return await store.purge_later(more.get("bank", BANK), [key], tenant, tail)

    return keep


async def due(store: SqlStore, bank: str = BANK) -> set[str]:
    return set(await store.take_purges(bank, limit=999))


async def test_what_is_to_go_later_is_taken_then_and_not_before(
    store: SqlStore, clock: Any, keep: Keep
) -> None:
    for key in ("k1", "k2"):
        await keep(key, ALICE, keep_s=60)
    await keep("k3", ALICE, keep_s=60, bank="engine-2")
    await keep("k2", ALICE, keep_s=120)
    assert await due(store) == set()
    clock.advance(seconds=60)
    assert await store.take_purges(BANK, limit=9) == ["k1", "k2"]
    await store.finish_purges(["k1", "k2"], fingerprint=BANK)
    assert await due(store) == set(), "built again since, and kept for longer"
    clock.advance(seconds=60)
    assert await due(store) == {"k2"}
    assert await due(store, "engine-2") == {"k3"}


async def test_forgetting_a_scope_takes_its_tails_and_no_others(
    store: SqlStore, clock: Any, keep: Keep
) -> None:
    """Those that have all its ids, of this tenant: in any order, for all scopes that there are."""
    other = (await store.create_tenant("other")).id
    for tenant, scope in product((TENANT, other), SCOPES):
        assert await keep(f"{tenant}/{SCOPES.index(scope)}", scope, tenant)
    clock.advance(seconds=1)
    gone: set[str] = set()
    for scope in random.Random(7).sample(SCOPES, 30):
        tenant = TENANT if len(gone) % 2 else other
        await store.delete_scope(tenant, scope)
        gone |= {f"{tenant}/{n}" for n, each in enumerate(SCOPES) if scope.covers(each)}
        assert await due(store) == gone
    assert len(gone) < 2 * len(SCOPES)
    clock.advance(seconds=3600)
    assert len(await due(store)) == 2 * len(SCOPES), "the others went in time"


async def test_every_bank_is_told(store: SqlStore, clock: Any, keep: Keep) -> None:
    for bank in (BANK, "engine-2"):
        await keep("k", ALICE, bank=bank)
    await store.delete_scope(TENANT, ALICE)
    for bank in (BANK, "engine-2"):
        assert await due(store, bank) == {"k"}


async def test_many_tails_take_as_many_statements_as_one(store: SqlStore, keep: Keep) -> None:
    counts = []
    for number in (1, 300):
        for n in range(number):
            await keep(f"{number}/{n}", ALICE)
        seen: list[str] = []

        def note(_conn: Any, _cursor: Any, statement: str, *_: Any, seen: Any = seen) -> None:
            seen.append(statement)

        event.listen(Engine, "before_cursor_execute", note)
        try:
            await store.delete_scope(TENANT, ALICE)
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        counts.append(len(seen))
    assert counts[0] == counts[1]
    assert len(await due(store)) == 301


@pytest.mark.parametrize(
    ("asked_s", "scope", "tenant", "is_kept"),
    [
        (0, ALICE, TENANT, False),
        (0, Scope("alice", "guide", "t1", "mail"), TENANT, False),
        (10, ALICE, TENANT, True),
        (0, BOB, TENANT, True),
        (0, Scope(run_id="t1"), TENANT, True),
        (0, ALICE, "other", True),
    ],
    ids=["under way", "narrower", "asked later", "another user", "wider", "another tenant"],
)
async def test_what_was_under_way_when_its_scope_was_forgotten_goes_at_once(
    store: SqlStore, clock: Any, keep: Keep, asked_s: int, scope: Scope, tenant: str, is_kept: bool
) -> None:
    if tenant == "other":
        tenant = (await store.create_tenant("other")).id
    asked_at = clock() + timedelta(seconds=asked_s)
    clock.advance(seconds=5)
    await store.delete_scope(TENANT, ALICE)
    clock.advance(seconds=600)
    assert await keep("k", scope, tenant, asked_at=asked_at) is is_kept
    assert await due(store) == (set() if is_kept else {"k"})


async def test_who_was_forgotten_is_not_remembered_by_name_nor_for_long(
    store: SqlStore, clock: Any, keep: Keep
) -> None:
    async def forgotten() -> int:
        async with store._db.read() as conn:
            rows = await conn.run_sync(dump)
        assert "alice" not in str(rows["forgotten_scopes"])
        return len(rows["forgotten_scopes"])

    for _ in range(2):
        await store.delete_scope(TENANT, ALICE)
    assert await forgotten() == 1
    clock.advance(seconds=90_000)
    await store.delete_scope(TENANT, BOB)
    assert await forgotten() == 1


async def _thread(store: SqlStore, scope: Scope, name: str = "t1") -> None:
    await store.create_thread(TENANT, name, scope, None)
    await store.add_messages(TENANT, name, [MessageDraft("user", "hello")])


@pytest.mark.parametrize("by", ["thread", "scope", "agent"])
async def test_a_thread_takes_the_conversations_that_name_it(
    store: SqlStore, keep: Keep, by: str
) -> None:
    await _thread(store, Scope("alice", "guide"))
    gone = {
        "its own": Scope("alice", "guide", "t1"),
        "without the agent": Scope("alice", run_id="t1"),
        "the thread alone": Scope(run_id="t1"),
    }
    kept = {
        "another's run of that name": Scope("bob", run_id="t1"),
        "another thread": Scope("alice", run_id="t2"),
        "the user": ALICE,
    }
    for key, scope in (gone | kept).items():
        await keep(key, scope)
    if by == "thread":
        await store.delete_thread(TENANT, "t1")
    else:
        agent = Scope(agent_id="guide")
        await store.delete_scope(TENANT, agent if by == "agent" else Scope("alice", run_id="t1"))
    assert await due(store) == set(gone)


async def test_another_tenants_thread_of_that_name_takes_nothing(
    store: SqlStore, clock: Any, keep: Keep
) -> None:
    other = (await store.create_tenant("other")).id
    await keep("k", Scope("alice", run_id="t1"), other)
    asked_at = clock()
    await _thread(store, ALICE)
    await store.delete_thread(TENANT, "t1")
    assert await store.delete_thread(TENANT, "t1") is None
    assert await keep("k", Scope("alice", run_id="t1"), other, asked_at=asked_at)
    assert await due(store) == set()
    assert not await keep("mine", Scope("alice", run_id="t1"), asked_at=asked_at)
    assert await due(store) == {"mine"}
