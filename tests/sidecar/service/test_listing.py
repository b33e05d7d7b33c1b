"""Lists: filters mean the same in SQL and in memory; pages fit together; one count for all."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.filter import parse_filter, predicate
from inferscale_sidecar.service.view import MemoryFields
from inferscale_sidecar.store.conditions import to_sql
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.schema import memories

ALICE = Scope(user_id="alice")
START = "2026-01-01T00:00:00"


async def _fill(world: Any) -> list[Memory]:
    """Ten a minute apart: of two agents and none, an app and none, three roles, and metadata."""
    made = []
    for i in range(10):
        scope = Scope("alice", ("guide", "cook", None)[i % 3], app_id=(None, "mail")[i % 2])
        message = Message(role=("user", "assistant", "tool")[i % 3], content=f"tea {i}")
        message.name = "Ann" if i % 2 else None
        added = await world.memory.add(
            world.tenant, scope, message, metadata={"i": i, "even": i % 2 == 0}
        )
        made.append(added[0].memory)
        world.clock.advance(minutes=1)
    return made


async def _walk(world: Any, *, limit: int = 3, **options: Any) -> tuple[list[str], set[int]]:
    texts: list[str] = []
    totals, before, total = set(), None, None
    while True:
        page = await world.memory.list(
            world.tenant, ALICE, limit=limit, before=before, total=total, **options
        )
        texts += [memory.text for memory in page.memories]
        totals.add(page.total)
        before, total = page.next_before, page.total
        if before is None:
            return texts, totals


FILTERS: Sequence[tuple[dict[str, Any], Any]] = [
    ({"role": "user"}, lambda i: i % 3 == 0),
    ({"role": {"ne": "user"}}, lambda i: i % 3 != 0),
    ({"actor_id": None}, lambda i: i % 2 == 0),
    ({"actor_id": {"ne": "Ann"}}, lambda i: i % 2 == 0),
    ({"agent_id": ["guide", None]}, lambda i: i % 3 != 1),
    ({"agent_id": {"nin": ["guide", 7]}}, lambda i: i % 3 != 0),
    ({"app_id": "mail"}, lambda i: i % 2),
    ({"app_id": {"ne": "mail"}}, lambda i: i % 2 == 0),
    ({"AND": [{"app_id": ["mail", "shop"]}, {"role": "tool"}]}, lambda i: i % 6 == 5),
    ({"OR": [{"app_id": None}, {"agent_id": "cook"}]}, lambda i: i % 2 == 0 or i % 3 == 1),
    ({"NOT": [{"app_id": "mail"}, {"i": 4}]}, lambda i: i % 2 == 0 and i != 4),
    ({"created_at": {"gte": "2026-01-01T00:05:00Z"}}, lambda i: i >= 5),
    ({"created_at": {"lt": "2026-01-01T02:05:00+02:00"}}, lambda i: i < 5),
    ({"created_at": {"gt": 5}}, lambda i: False),
    ({"NOT": [{"created_at": {"gt": 5}}]}, lambda i: True),
    ({"OR": [{"role": "tool"}, {"actor_id": "Ann"}]}, lambda i: i % 3 == 2 or i % 2),
    ({"NOT": [{"actor_id": "Ann"}, {"role": "user"}]}, lambda i: i % 2 == 0 and i % 3),
    ({"i": {"gte": 7}}, lambda i: i >= 7),
    ({"even": True, "role": "user"}, lambda i: i % 6 == 0),
    ({"i": {"in": [1, 2, 30]}}, lambda i: i in (1, 2)),
    ({"role": {"contains": "ass"}}, lambda i: i % 3 == 1),
    ({"nothing": {"ne": None}}, lambda i: False),
]


@pytest.mark.parametrize(("filters", "passes"), FILTERS, ids=[str(f) for f, _ in FILTERS])
async def test_filtered_pages_fit_together(world: Any, filters: Any, passes: Any) -> None:
    await _fill(world)
    expected = [f"tea {i}" for i in range(9, -1, -1) if passes(i)]
    assert await _walk(world, filters=filters) == (expected, {len(expected)})
    page = await world.memory.list(world.tenant, ALICE, filters=filters, limit=2, offset=1)
    assert [memory.text for memory in page.memories] == expected[1:3]
    ids, _ = await world.memory.delete_where(world.tenant, ALICE, filters, dry_run=True)
    assert len(ids) == len(expected)
    hits = await world.memory.search(world.tenant, ALICE, "tea", filters=filters, limit=99)
    assert {hit.memory.text for hit in hits} == set(expected)


async def test_a_list_without_filters_by_cursor_and_by_offset(world: Any) -> None:
    await _fill(world)
    everything, totals = await _walk(world)
    assert (everything, totals) == ([f"tea {i}" for i in range(9, -1, -1)], {10})
    page = await world.memory.list(world.tenant, ALICE, limit=4, offset=8)
    assert ([memory.text for memory in page.memories], page.next_before) == (
        ["tea 1", "tea 0"],
        None,
    )


async def test_expired_ones_are_listed_only_on_request(world: Any) -> None:
    await _fill(world)
    for filters in ({"role": "user"}, {"i": 0}):
        await world.memory.add(
            world.tenant, ALICE, "short", metadata={"i": 0}, ttl_s=10, infer=False
        )
        world.clock.advance(seconds=11)
        assert "short" not in (await _walk(world, filters=filters))[0]
        assert "short" in (await _walk(world, filters=filters, show_expired=True))[0]


async def test_the_total_comes_from_the_first_page(world: Any) -> None:
    await _fill(world)
    for filters in (None, {"i": {"gte": 0}}, {"role": {"ne": "x"}}):
        first = await world.memory.list(world.tenant, ALICE, limit=2, filters=filters)
        second = await world.memory.list(
            world.tenant, ALICE, limit=2, before=first.next_before, total=77, filters=filters
        )
        assert (first.total, second.total) == (10, 77)


@pytest.mark.parametrize(
    "page", [{"limit": 0}, {"limit": 1001}, {"offset": -1}, {"offset": 1, "before": 5}]
)
async def test_a_page_that_there_cannot_be_is_refused(world: Any, page: Any) -> None:
    with pytest.raises(InvalidInput):
        await world.memory.list(world.tenant, ALICE, **page)


async def test_another_users_memories_pass_no_filter(world: Any) -> None:
    await _fill(world)
    await world.memory.add(world.other, ALICE, "foreign", metadata={"i": 1})
    await world.memory.add(world.tenant, Scope(user_id="bob"), "bobs", metadata={"i": 1})
    for filters in ({"i": 1}, {"user_id": "bob"}, {"NOT": [{"user_id": "alice"}]}):
        texts, _ = await _walk(world, filters=filters)
        assert set(texts) <= {"tea 1"}


names = st.sampled_from(["role", "actor_id", "agent_id", "app_id"])
labels = (
    st.none() | st.sampled_from(["user", "tool", "guide", "mail", "Ann", ""]) | st.integers(0, 2)
)
times = st.sampled_from(["2026-01-01T00:03:00", "2026-01-01T00:04:00Z", "2026-01-02", 3])
tests = st.one_of(
    st.tuples(names, labels).map(lambda p: {p[0]: p[1]}),
    st.tuples(
        names,
        st.sampled_from(["in", "nin"]),
        st.lists(labels, max_size=3),
    ).map(lambda p: {p[0]: {p[1]: p[2]}}),
    st.tuples(
        st.sampled_from(["created_at", "updated_at"]),
        st.sampled_from(["gt", "gte", "lt", "lte"]),
        times,
    ).map(lambda p: {p[0]: {p[1]: p[2]}}),
)
trees = st.recursive(
    tests,
    lambda inner: st.tuples(
        st.sampled_from(["AND", "OR", "NOT"]), st.lists(inner, min_size=1, max_size=3)
    ).map(lambda p: {p[0]: p[1]}),
    max_leaves=8,
)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)
async def test_sql_and_predicate_agree_on_any_filter(world: Any, database_url: str) -> None:
    made = await _fill(world)
    database = Database(database_url)
    found: list[tuple[Any, set[str]]] = []

    @settings(
        max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(trees)
    def collect(filters: Any) -> None:
        condition = parse_filter(filters)
        assert condition is not None
        passes = predicate(condition)
        found.append((condition, {m.id for m in made if passes(MemoryFields(m))}))

    collect()
    async with database.read() as conn:
        for condition, expected in found:
            sql = to_sql(condition)
            assert sql is not None
            assert set(await conn.scalars(select(memories.c.id).where(sql))) == expected, condition
    await database.close()


async def test_the_store_refuses_what_it_cannot_decide(world: Any) -> None:
    condition = parse_filter({"mood": "good"})
    with pytest.raises(ValueError, match="more than columns"):
        await world.store.list_memories(world.tenant.id, ALICE, limit=1, condition=condition)


async def test_a_page_reads_no_more_than_is_on_it(world: Any, database_url: str) -> None:
    """The index gives order and count: SQLite says so itself."""
    await _fill(world)
    database = Database(database_url)
    async with database.read() as conn:
        plan = await conn.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT count(*) FROM memories WHERE tenant_id = 'a' AND"
            " user_id = 'b' AND status IN ('live', 'pending')"
            " AND (expires_at IS NULL OR expires_at > '2026')"
        )
        assert "COVERING INDEX" in str(plan.all())
        plan = await conn.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT * FROM memories WHERE tenant_id = 'a' AND user_id = 'b'"
            " AND status IN ('live', 'pending') AND num < 50 ORDER BY num DESC LIMIT 3"
        )
        steps = str(plan.all())
        assert "num<?" in steps and "B-TREE" not in steps
    await database.close()
    at = Moment(world.clock.now + timedelta(hours=1))
    page = await world.store.list_memories(world.tenant.id, ALICE, limit=3, count=False, at=at)
    assert (len(page.memories), page.total) == (3, 0)
