"""New facts meet what the scope holds: the same, the opposite, or something else."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.extract import Extracted, ExtractionFailed, Fact, Turn
from inferscale_sidecar.extract.judge import Pair
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.memory_facts import FactWriter
from inferscale_sidecar.service.reconcile import Reconciler
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.store.records import Added

ALICE, BOB = Scope(user_id="alice"), Scope(user_id="bob")


class Verbatim:
    """Every sentence is a fact."""

    async def extract(self, turns: Sequence[Turn], *, now: datetime, salt: str = "") -> Extracted:
        return Extracted(
            tuple(
                Fact(part.strip(), (at,))
                for at, turn in enumerate(turns)
                for part in turn.text.removeprefix("msg: ").split(";")
            )
        )

    async def close(self) -> None: ...


class ScriptedJudge:
    def __init__(self) -> None:
        self.verdict: set[tuple[str, str]] = set()
        self.asked: list[Pair] = []
        self.is_broken = False

    async def outdated(self, pairs: Sequence[Pair], *, salt: str = "") -> set[int]:
        if self.is_broken:
            raise ExtractionFailed("the model is down")
        self.asked += pairs
        return {at for at, pair in enumerate(pairs) if (pair.new, pair.old) in self.verdict}


class Rig:
    def __init__(self, world: Any) -> None:
        self.world, self.tenant, self.judge = world, world.tenant, ScriptedJudge()
        searcher = Searcher(world.store, world.embedder, world.metrics, create_index=FlatIndex)
        writer = FactWriter(
            world.store, world.embedder, Verbatim(), Reconciler(searcher, self.judge)
        )
        self.memory = MemoryService(
            world.store, world.embedder, searcher, world.metrics, facts=writer
        )

    async def add(self, text: str, scope: Scope = ALICE) -> list[Added]:
        # A prefix, so that a message is never the same text as its fact.
        return await self.memory.add(self.tenant, scope, f"msg: {text}", infer=True)

    async def texts(self, scope: Scope = ALICE) -> list[str]:
        page = await self.memory.list(self.tenant, scope, limit=1_000)
        hits = await self.memory.search(self.tenant, scope, "the user", limit=1_000)
        assert {m.text for m in page.memories} == {hit.memory.text for hit in hits}
        return sorted(m.text for m in page.memories)

    async def get(self, memory_id: str) -> Memory:
        return await self.memory.get(self.tenant, memory_id)


@pytest.fixture
def rig(world: Any) -> Rig:
    return Rig(world)


async def test_an_exact_duplicate_is_the_memory_that_is_there(rig: Rig) -> None:
    (first,) = await rig.add("The user likes tea")
    (second,) = await rig.add("The user likes tea; The user likes tea")
    assert (second.event, second.memory.id) == ("NOOP", first.memory.id)
    assert await rig.texts() == ["The user likes tea"]


async def test_a_restatement_is_merged_however_much_is_newer(rig: Rig) -> None:
    (first,) = await rig.add("The user likes tea")
    for i in range(60):
        await rig.world.memory.add(rig.tenant, ALICE, f"the user likes thing number {i}")
    (second,) = await rig.add("User likes tea")
    assert (second.event, second.memory.id) == ("NOOP", first.memory.id)
    assert (await rig.get(first.memory.id)).version == 1
    assert len(second.sources) == 1
    assert (await rig.get(second.sources[0])).text == "msg: User likes tea"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The user has 5 years of experience", "The user has 6 years of experience"),
        ("The user flies on 2026-05-04", "The user flies on 2026-05-05"),
        ("The user pays $5", "The user pays €5"),
    ],
)
async def test_numbers_and_dates_are_never_duplicates(rig: Rig, old: str, new: str) -> None:
    await rig.add(old)
    (added,) = await rig.add(new)
    assert (added.event, added.supersedes) == ("ADD", ())
    assert await rig.texts() == sorted([old, new])
    assert [(pair.new, pair.old) for pair in rig.judge.asked] == [(new, old)]


async def test_a_contradiction_supersedes_and_nothing_is_lost(rig: Rig) -> None:
    (old,) = await rig.add("The user eats meat")
    handle = await rig.world.recall.recall(rig.tenant, ALICE, "meat")
    (new,) = await rig.add("The user does not eat meat")
    assert new.supersedes == (old.memory.id,)
    assert await rig.texts() == ["The user does not eat meat"]
    kept = await rig.get(old.memory.id)
    assert (kept.status, kept.superseded_by) == ("superseded", new.memory.id)
    assert kept.text == "The user eats meat"
    events = await rig.memory.history(rig.tenant, old.memory.id)
    assert [event.event for event in events] == ["ADD", "REPLACE"]
    assert events[0].text == "The user eats meat"
    assert (await rig.world.recall.resolve(rig.tenant, handle.handle)).items == ()
    with pytest.raises(Conflict, match="superseded"):
        await rig.memory.update(rig.tenant, old.memory.id, text="The user eats fish")


async def test_what_becomes_true_again_is_a_new_memory(rig: Rig) -> None:
    (first,) = await rig.add("The user eats meat")
    await rig.add("The user does not eat meat")
    (again,) = await rig.add("The user eats meat")
    assert again.event == "ADD"
    assert again.memory.id != first.memory.id
    assert await rig.texts() == ["The user eats meat"]


async def test_an_llm_may_say_that_a_related_fact_is_outdated(rig: Rig) -> None:
    rig.judge.verdict = {("The user lives in Bergen", "The user lives in Oslo")}
    (old,) = await rig.add("The user lives in Oslo")
    await rig.add("The user lives with Ann")
    (new,) = await rig.add("The user lives in Bergen")
    assert new.supersedes == (old.memory.id,)
    assert await rig.texts() == ["The user lives in Bergen", "The user lives with Ann"]


async def test_a_failing_judge_keeps_both(rig: Rig) -> None:
    rig.judge.is_broken = True
    await rig.add("The user lives in Oslo")
    await rig.add("The user lives in Bergen")
    assert await rig.texts() == ["The user lives in Bergen", "The user lives in Oslo"]


async def test_other_scopes_are_neither_compared_with_nor_changed(rig: Rig) -> None:
    await rig.add("The user eats meat", BOB)
    await rig.add("The user eats meat", Scope(user_id="alice", agent_id="cook"))
    (added,) = await rig.add("The user does not eat meat")
    assert added.supersedes == ()
    assert await rig.texts(BOB) == ["The user eats meat"]
    assert await rig.texts(Scope(agent_id="cook")) == ["The user eats meat"]


async def test_forgetting_covers_what_was_superseded(rig: Rig) -> None:
    (old,) = await rig.add("The user eats meat")
    await rig.add("The user does not eat meat")
    await rig.memory.delete_all(rig.tenant, ALICE)
    events = await rig.memory.history(rig.tenant, old.memory.id)
    assert [event.text for event in events] == [None, None, None]
