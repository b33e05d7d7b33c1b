"""Adding with extraction: nothing is lost, whatever the LLM does; doing it again is harmless."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.extract import Extracted, ExtractionFailed, Fact, Turn
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.memory_facts import Additions, FactWriter
from inferscale_sidecar.service.reconcile import Reconciler
from inferscale_sidecar.service.search import Searcher

ALICE = Scope(user_id="alice")
Script = Callable[[Sequence[Turn]], Extracted]


class ScriptedExtractor:
    """Finds what it was told to, once its gate is open."""

    def __init__(self) -> None:
        self.script: Script = one_fact_each
        self.calls: list[list[Turn]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def extract(self, turns: Sequence[Turn], *, now: datetime, salt: str = "") -> Extracted:
        self.calls.append(list(turns))
        await self.gate.wait()
        return self.script(turns)

    async def close(self) -> None: ...


def one_fact_each(turns: Sequence[Turn]) -> Extracted:
    return Extracted(tuple(Fact(f"fact: {t.text}", (at,)) for at, t in enumerate(turns) if t.text))


def nothing(turns: Sequence[Turn]) -> Extracted:
    return Extracted(())


def broken(turns: Sequence[Turn]) -> Extracted:
    raise ExtractionFailed("the model is down", code="extraction_unusable")


def faulty(turns: Sequence[Turn]) -> Extracted:
    raise KeyError("a mistake of ours")


class Facts:
    """A memory service that extracts, over the store of a world."""

    def __init__(self, world: Any) -> None:
        self.world, self.tenant = world, world.tenant
        self.extractor = ScriptedExtractor()
        searcher = Searcher(
            world.store,
            world.embedder,
            world.metrics,
            create_index=FlatIndex,
            clock=world.clock,
        )
        self.writer = FactWriter(
            world.store,
            world.embedder,
            self.extractor,
            Reconciler(searcher),
            clock=world.clock,
        )
        self.memory = MemoryService(
            world.store,
            world.embedder,
            searcher,
            world.metrics,
            facts=self.writer,
            clock=world.clock,
        )

    async def add(self, messages: Any, **options: Any) -> Additions:
        options = {"infer": True} | options
        return await self.memory.remember(self.tenant, ALICE, messages, **options)

    async def found(self, query: str = "fact") -> set[str]:
        hits = await self.memory.search(self.tenant, ALICE, query, limit=100)
        page = await self.memory.list(self.tenant, ALICE)
        assert {hit.memory.id for hit in hits} == {m.id for m in page.memories}
        assert page.total == len(hits)
        return {hit.memory.text for hit in hits}

    async def get(self, memory_id: str) -> Memory:
        return await self.memory.get(self.tenant, memory_id)


@pytest.fixture
def facts(world: Any) -> Facts:
    return Facts(world)


async def test_facts_over_the_quota_leave_the_messages_found_and_say_why(
    facts: Facts, world: Any
) -> None:
    await world.store.set_limits(facts.tenant.id, {"memories": 1})
    added = await facts.add("she moved to Oslo")
    assert [(r.status, r.memory.text) for r in added.results] == [("raw", "she moved to Oslo")]
    assert added.extraction is not None
    assert (added.extraction.state, added.extraction.error_code) == ("failed", "quota_exceeded")
    assert await facts.found("Oslo") == {"she moved to Oslo"}
    await world.store.set_limits(facts.tenant.id, {"memories": 2})
    assert (await facts.add("she moved to Oslo")).results[0].status == "extracted"


async def test_facts_are_found_and_their_messages_are_kept_and_linked(facts: Facts) -> None:
    said_at = datetime(2025, 1, 1, tzinfo=UTC)
    ada = Message(role="user", name="Ada", content="I moved to Oslo", timestamp=said_at)
    done = await facts.add([ada, Message(role="assistant", content="Nice")], metadata={"a": 1})
    assert done.extraction is not None
    assert (done.extraction.state, done.extraction.facts) == ("done", 2)
    assert await facts.found() == {"fact: I moved to Oslo", "fact: Nice"}
    fact = done.results[0]
    assert (fact.event, fact.status) == ("ADD", "extracted")
    memory = await facts.get(fact.memory.id)
    assert (memory.kind, memory.role, memory.actor_id) == ("fact", "user", "Ada")
    assert (memory.said_at, memory.metadata) == (said_at, {"a": 1})
    (source,) = [await facts.get(i) for i in fact.sources]
    assert (source.text, source.status) == ("I moved to Oslo", "source")


async def test_a_failing_llm_loses_nothing_and_a_retry_is_safe(facts: Facts) -> None:
    for script, code in ((broken, "extraction_unusable"), (faulty, "extraction_failed")):
        facts.extractor.script = script
        failed = await facts.add("I moved to Oslo", idempotency_key="k")
        assert [(a.status, a.memory.text) for a in failed.results] == [("raw", "I moved to Oslo")]
        assert failed.results[0].error
        assert failed.extraction is not None
        assert (failed.extraction.state, failed.extraction.error_code) == ("failed", code)
        assert await facts.found() == {"I moved to Oslo"}
    facts.extractor.script = one_fact_each
    done = await facts.add("I moved to Oslo", idempotency_key="k")
    assert [a.status for a in done.results] == ["extracted"]
    assert await facts.found() == {"fact: I moved to Oslo"}
    again = await facts.add("I moved to Oslo", idempotency_key="k")
    assert again.results[0].memory.id == done.results[0].memory.id


async def test_adding_the_same_messages_again_asks_nobody_and_changes_nothing(facts: Facts) -> None:
    first = await facts.add("I like tea")
    for _ in range(3):
        again = await facts.add("I like tea")
        assert [(a.event, a.memory.id) for a in again.results] == [
            ("NOOP", first.results[0].memory.id)
        ]
    assert len(facts.extractor.calls) == 1
    await facts.memory.delete(facts.tenant, first.results[0].memory.id)
    await facts.add("I like tea")
    assert len(facts.extractor.calls) == 2
    assert await facts.found() == {"fact: I like tea"}


async def test_no_text_means_no_call_and_no_result(facts: Facts) -> None:
    for messages in ([], "  ", [Message(role="system", content="You are helpful")]):
        assert await facts.add(messages) == Additions([])
    assert facts.extractor.calls == []
    assert await facts.found() == set()


async def test_nothing_worth_remembering_is_no_failure(facts: Facts) -> None:
    facts.extractor.script = nothing
    done = await facts.add("hello")
    assert done.results == []
    assert done.extraction is not None
    assert done.extraction.state == "done"
    assert await facts.found() == set()
    (turn,) = done.extraction.turns
    assert turn is not None
    assert (await facts.get(turn.id)).text == "hello"


async def test_in_the_background_messages_are_found_at_once_and_facts_later(facts: Facts) -> None:
    facts.extractor.gate.clear()
    worker = asyncio.create_task(facts.writer.run())
    pending = await facts.add("I moved to Oslo", wait=False)
    assert pending.extraction is not None
    assert pending.extraction.state == "pending"
    assert [a.status for a in pending.results] == ["pending"]
    assert await facts.found() == {"I moved to Oslo"}
    assert await facts.world.store.pending_builds("engine-1", limit=9) == []
    shown = await facts.memory.extraction(facts.tenant, pending.extraction.id)
    assert [a.status for a in shown.results] == ["pending"]
    facts.extractor.gate.set()
    for _ in range(500):
        shown = await facts.memory.extraction(facts.tenant, pending.extraction.id)
        if shown.extraction and shown.extraction.state == "done":
            break
        await asyncio.sleep(0.01)
    assert [a.memory.text for a in shown.results] == ["fact: I moved to Oslo"]
    assert await facts.found() == {"fact: I moved to Oslo"}
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker


async def test_what_a_crash_interrupted_is_extracted_after_the_next_start(facts: Facts) -> None:
    facts.extractor.gate.clear()
    task = asyncio.create_task(facts.add("I moved to Oslo"))
    while not facts.extractor.calls:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert await facts.found() == {"I moved to Oslo"}
    after = Facts(facts.world)
    worker = asyncio.create_task(after.writer.run())
    for _ in range(500):  # listed only: between a search and a list it may just be extracted
        page = await after.memory.list(after.tenant, ALICE)
        if {memory.text for memory in page.memories} == {"fact: I moved to Oslo"}:
            break
        await asyncio.sleep(0.01)
    assert await after.found() == {"fact: I moved to Oslo"}
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker


async def test_messages_deleted_while_the_llm_thinks_leave_no_facts(facts: Facts) -> None:
    facts.extractor.gate.clear()
    task = asyncio.create_task(facts.add("I moved to Oslo"))
    while not facts.extractor.calls:
        await asyncio.sleep(0)
    await facts.memory.delete_all(facts.tenant, ALICE)
    facts.extractor.gate.set()
    with pytest.raises(NotFound):
        await task
    assert await facts.found() == set()


async def test_forgetting_a_fact_forgets_the_messages_that_it_comes_from(facts: Facts) -> None:
    done = await facts.add("I moved to Oslo")
    fact = done.results[0]
    removed = await facts.memory.delete(facts.tenant, fact.memory.id)
    assert (removed.memories, removed.sources) == (1, 1)
    with pytest.raises(NotFound):
        await facts.get(fact.sources[0])
    assert done.extraction is not None
    with pytest.raises(NotFound):
        await facts.memory.extraction(facts.tenant, done.extraction.id)


async def test_forgetting_a_user_forgets_the_messages_too(facts: Facts) -> None:
    done = await facts.add([Message(content="I like tea"), Message(content="I like rum")])
    removed = await facts.memory.delete_all(facts.tenant, ALICE)
    assert (removed.memories, removed.sources) == (2, 2)
    for fact in done.results:
        for memory_id in (fact.memory.id, *fact.sources):
            with pytest.raises(NotFound):
                await facts.get(memory_id)


async def test_a_verbatim_memory_stays_when_it_is_also_extracted_from(facts: Facts) -> None:
    (verbatim,) = await facts.memory.add(facts.tenant, ALICE, "I like tea", infer=False)
    await facts.add("I like tea")
    assert await facts.found() == {"I like tea", "fact: I like tea"}
    assert (await facts.get(verbatim.memory.id)).status == "live"


async def test_another_tenant_sees_no_extraction(facts: Facts) -> None:
    done = await facts.add("I like tea")
    assert done.extraction is not None
    with pytest.raises(NotFound):
        await facts.memory.extraction(facts.world.other, done.extraction.id)


async def test_concurrent_identical_additions_become_one_fact(facts: Facts) -> None:
    done = await asyncio.gather(*(facts.add("I like tea") for _ in range(8)))
    assert len({a.memory.id for each in done for a in each.results}) == 1
    assert await facts.found() == {"fact: I like tea"}


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
async def test_the_background_outlives_an_outage_of_the_database(
    facts: Facts, backend: Any
) -> None:
    pending = await facts.add("I moved to Oslo", wait=False)
    assert pending.extraction is not None
    await asyncio.to_thread(backend.stop)
    worker = asyncio.create_task(facts.writer.run())
    try:
        await asyncio.sleep(0.2)
        assert not worker.done()
    finally:
        backend.start()
    async with asyncio.timeout(30):
        while await facts.world.store.pending_extractions(limit=1):
            await asyncio.sleep(0.05)
    worker.cancel()
    shown = await facts.memory.extraction(facts.tenant, pending.extraction.id)
    assert [added.status for added in shown.results] == ["extracted"]
