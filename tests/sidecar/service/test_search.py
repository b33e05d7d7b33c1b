"""Search: order, scope, filters before k, and other processes' writes."""

import asyncio
from itertools import combinations
from typing import Any

import pytest

from inferscale.protocol.memory import SCOPE_IDS, Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import InvalidInput

ALICE, BOB = Scope(user_id="alice"), Scope(user_id="bob")


async def _texts(world: Any, query: str, scope: Scope = ALICE, **options: Any) -> list[str]:
    hits = await world.memory.search(world.tenant, scope, query, **options)
    return [hit.memory.text for hit in hits]


async def test_best_first_with_scores_that_fall(world: Any) -> None:
    await world.memory.add(
        world.tenant,
        ALICE,
        [Message(content=text) for text in ("red apple", "red car", "blue sky")],
    )
    hits = await world.memory.search(world.tenant, ALICE, "red apple")
    assert hits[0].memory.text == "red apple"
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(1)
    assert -1 <= scores[-1] < scores[1] < 1


async def test_threshold_and_limits(world: Any) -> None:
    texts = [Message(content=f"tea {i}") for i in range(5)]
    await world.memory.add(world.tenant, ALICE, texts)
    assert await _texts(world, "tea 1", threshold=0.999) == ["tea 1"]
    assert await _texts(world, "tea", limit=0) == []
    assert len(await _texts(world, "tea", limit=3)) == 3
    assert len(await _texts(world, "tea", limit=1000)) == 5
    assert await _texts(world, "tea", scope=BOB) == []


async def test_filters_run_before_ranking_so_that_k_is_honoured(world: Any) -> None:
    for i in range(30):
        await world.memory.add(
            world.tenant, ALICE, f"tea number {i}", metadata={"even": i % 2 == 0, "i": i}
        )
    found = await _texts(world, "tea number 7", limit=10, filters={"even": True})
    assert len(found) == 10
    assert await _texts(world, "tea", limit=3, filters={"i": {"in": [4, 5]}}) != []
    assert len(await _texts(world, "tea", limit=3, filters={"i": {"gte": 28}})) == 2
    with pytest.raises(InvalidInput, match="unknown operator"):
        await _texts(world, "tea", filters={"i": {"near": 3}})
    with pytest.raises(InvalidInput, match="unknown operator"):
        await _texts(world, "tea", limit=0, filters={"i": {"near": 3}})


async def test_filters_see_changed_metadata_and_the_memorys_own_fields(world: Any) -> None:
    (added,) = await world.memory.add(
        world.tenant, ALICE, Message(role="assistant", content="tea", name="Bot")
    )
    assert await _texts(world, "tea", filters={"role": "assistant", "actor_id": "Bot"})
    assert await _texts(world, "tea", filters={"mood": "good"}) == []
    await world.memory.update(world.tenant, added.memory.id, metadata={"mood": "good"})
    assert await _texts(world, "tea", filters={"mood": "good"}) == ["tea"]


async def test_filters_only_narrow_a_scope(world: Any) -> None:
    await world.memory.add(world.tenant, ALICE, "alice tea", metadata={"user_id": "bob"})
    await world.memory.add(world.tenant, BOB, "bob tea")
    for filters in (
        {"user_id": "bob"},
        {"user_id": "*"},
        {"user_id": {"in": ["bob"]}},
        {"NOT": [{"user_id": "alice"}]},
    ):
        assert await _texts(world, "tea", filters=filters) == []
    assert await _texts(world, "tea", filters={"OR": [{"user_id": "alice"}]}) == ["alice tea"]


async def test_ids_of_a_scope_are_anded_in_every_combination(world: Any) -> None:
    letters = {"user_id": "u", "agent_id": "a", "run_id": "r", "app_id": "p"}
    assert tuple(letters) == SCOPE_IDS
    scopes = {
        "".join(letters[name] for name in some): Scope(**dict.fromkeys(some, "x"))
        for size in range(1, 5)
        for some in combinations(SCOPE_IDS, size)
    }
    assert len(scopes) == 15
    for name, scope in scopes.items():
        await world.memory.add(world.tenant, scope, f"tea {name}")
    for asked, scope in scopes.items():
        found = {text.removeprefix("tea ") for text in await _texts(world, "tea", scope=scope)}
        assert found == {name for name in scopes if set(asked) <= set(name)}


async def test_equal_scores_are_newest_first_every_time(world: Any) -> None:
    for i in range(40):
        await world.memory.add(world.tenant, Scope(user_id="alice", run_id=f"r{i}"), "same text")
    hits = await world.memory.search(world.tenant, ALICE, "same text", limit=5)
    assert [hit.memory.scope.run_id for hit in hits] == ["r39", "r38", "r37", "r36", "r35"]


async def test_a_search_while_others_write_never_shows_what_is_gone(world: Any) -> None:
    await world.memory.add(world.tenant, ALICE, [Message(content=f"tea {i}") for i in range(60)])
    gone: set[str] = set()

    async def delete_some() -> None:
        page = await world.memory.list(world.tenant, ALICE)
        for memory in page.memories[:30]:
            await world.memory.delete(world.tenant, memory.id)
            gone.add(memory.id)

    async def search_some() -> None:
        for _ in range(30):
            before = set(gone)
            hits = await world.memory.search(world.tenant, ALICE, "tea", limit=20)
            assert len(hits) == 20
            assert not before & {hit.memory.id for hit in hits}

    await asyncio.gather(delete_some(), search_some())


async def test_another_process_is_seen_at_once(world: Any, create_world: Any) -> None:
    """Two services on one database share no memory, as two processes do."""
    twin = create_world(world.tenant, world.other)
    await world.memory.add(world.tenant, ALICE, "tea")
    assert await _texts(twin, "tea") == ["tea"]
    await twin.memory.add(world.tenant, ALICE, "tea pot")
    assert set(await _texts(world, "tea")) == {"tea", "tea pot"}
    await twin.memory.delete_all(world.tenant, ALICE)
    assert await _texts(world, "tea") == []
