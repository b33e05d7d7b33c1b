"""Summaries of long threads: in the background, of what is there, and harmless when they fail."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from inferscale_sidecar.core import Scope
from inferscale_sidecar.extract import ExtractionFailed, Turn
from inferscale_sidecar.service.summaries import SummaryWriter
from inferscale_sidecar.service.threads import ThreadService
from inferscale_sidecar.store.thread_port import MessageDraft

ALICE = Scope("alice")
KEEP = 3
pytestmark = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)


class Listing:
    """A summarizer whose summaries list what was said; what is in `failures` is raised first."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, list[str]]] = []
        self.salts: set[str] = set()
        self.failures: list[Exception] = []
        self.gate: asyncio.Event | None = None

    async def summarize(
        self, summary: str | None, turns: Sequence[Turn], *, now: datetime, salt: str = ""
    ) -> str:
        self.calls.append((summary, [turn.text for turn in turns]))
        self.salts.add(salt)
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        return " ".join([*([summary] if summary else []), *(turn.text for turn in turns)])


class Rig:
    """Threads with summaries, and the queue that makes them."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.model = Listing()
        self.writer = SummaryWriter(
            world.store, self.model, keep=KEEP, clock=world.clock, patience_s=(0.01,)
        )
        self.threads = ThreadService(
            world.store, world.memory, world.recall, world.metrics, summaries=self.writer
        )

    async def say(self, *texts: str, thread: str = "t") -> None:
        await self.threads.create(self.world.tenant, thread, ALICE)
        for text in texts:
            await self.threads.add_messages(self.world.tenant, thread, text)

    async def summary(self, thread: str = "t") -> Any:
        return (await self.threads.context(self.world.tenant, thread)).summary

    async def settled(self, is_so: Callable[[Any], bool] | None = None) -> Any:
        """The summary once it is as it should be, else after it waits no more."""
        for _ in range(500):
            found = await self.summary()
            if is_so(found) if is_so else found is not None and found.state != "pending":
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"still {found}")

    @asynccontextmanager
    async def running(self) -> Any:
        task = asyncio.create_task(self.writer.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def rig(world: Any) -> Rig:
    return Rig(world)


async def test_what_is_older_is_summarized_and_no_request_waits(rig: Rig) -> None:
    await rig.say(*"abcde")
    assert await rig.summary() is None  # one more, and there are twice as many as are kept
    await rig.say("f")
    assert (await rig.summary()).state == "pending"
    assert rig.model.calls == []
    async with rig.running():
        found = await rig.settled()
        assert (found.text, found.num_messages, found.error) == ("a b c", 3, None)
        await rig.say(*"ghi")
        found = await rig.settled(lambda each: each.num_messages == 6)
        assert (found.text, found.state) == ("a b c d e f", "done")
    assert rig.model.calls == [(None, ["a", "b", "c"]), ("a b c", ["d", "e", "f"])]


async def test_long_threads_are_read_in_bounded_steps(rig: Rig) -> None:
    await rig.threads.create(rig.world.tenant, "t", ALICE)
    texts = [f"{number} " + "x" * 2_000 for number in range(20)]
    for text in texts:
        await rig.world.store.add_messages(
            rig.world.tenant.id, "t", [MessageDraft("user", text)], key=text[:3]
        )
    await rig.writer.note(rig.world.tenant.id, "t")
    async with rig.running():
        found = await rig.settled()
    assert found.num_messages == 17
    read = [text for _, said in rig.model.calls for text in said]
    assert read == texts[:17]
    assert all(sum(map(len, said)) <= 6_000 for _, said in rig.model.calls)


async def test_a_failure_is_seen_and_the_next_message_tries_again(rig: Rig) -> None:
    await rig.say(*"abcdef")
    rig.model.failures = [ExtractionFailed("out of words", code="summary_unusable")]
    async with rig.running():
        found = await rig.settled()
        assert (found.state, found.error, found.text) == ("failed", "out of words", None)
        await rig.say("g")
        found = await rig.settled(lambda each: each.state == "done")
        assert (found.text, found.error) == ("a b c d", None)
        rig.model.failures = [ExtractionFailed("no")]
        await rig.say(*"hij")
        found = await rig.settled(lambda each: each.state == "failed")
        assert (found.text, found.num_messages) == ("a b c d", 4)  # the one before stays


async def test_an_engine_that_is_away_is_asked_again(rig: Rig) -> None:
    await rig.say(*"abcdef")
    rig.model.failures = [ExtractionFailed("down", code="extraction_unavailable")]
    async with rig.running():
        assert (await rig.settled()).text == "a b c"
    assert len(rig.model.calls) == 2


async def test_a_defect_is_a_failure_of_that_summary_alone(rig: Rig) -> None:
    await rig.say(*"abcdef")
    rig.model.failures = [RuntimeError("a defect")]
    async with rig.running():
        found = await rig.settled()
        assert (found.state, found.error) == ("failed", "it failed: RuntimeError")
        await rig.say("g")
        assert (await rig.settled(lambda each: each.state == "done")).text == "a b c d"


async def test_what_waited_at_the_end_is_done_after_the_next_start(rig: Rig) -> None:
    await rig.say(*"abcdef")
    later = Rig(rig.world)
    async with later.running():
        assert (await later.settled()).text == "a b c"


async def test_a_message_that_goes_is_in_no_summary(rig: Rig) -> None:
    await rig.say("SECRET", *"bcdef")
    page = await rig.threads.messages(rig.world.tenant, "t")
    async with rig.running():
        assert "SECRET" in (await rig.settled()).text
        await rig.threads.delete_message(rig.world.tenant, "t", page.messages[0].id)
        assert "SECRET" not in ((await rig.summary()).text or "")
        found = await rig.settled()
        assert (found.text, found.num_messages) == ("b c", 2)
        await rig.threads.delete_message(rig.world.tenant, "t", page.messages[5].id)
        assert (await rig.summary()) == found  # it was of none that is gone


async def test_a_message_that_goes_while_it_is_read_is_in_no_summary(rig: Rig) -> None:
    await rig.say("SECRET", *"bcdef")
    page = await rig.threads.messages(rig.world.tenant, "t")
    rig.model.gate = asyncio.Event()
    async with rig.running():
        while not rig.model.calls:
            await asyncio.sleep(0.01)
        await rig.threads.delete_message(rig.world.tenant, "t", page.messages[0].id)
        rig.model.gate.set()
        assert (await rig.settled()).text == "b c"


async def test_a_thread_that_goes_takes_its_summary(rig: Rig) -> None:
    await rig.say(*"abcdef")
    async with rig.running():
        await rig.settled()
    await rig.threads.delete(rig.world.tenant, "t")
    await rig.say("x")
    assert await rig.summary() is None


async def test_tenants_have_summaries_of_their_own(rig: Rig) -> None:
    await rig.say(*"abcdef")
    other = rig.world.other
    await rig.threads.create(other, "t", ALICE)
    for text in "uvwxyz":
        await rig.threads.add_messages(other, "t", text)
    async with rig.running():
        assert (await rig.settled()).text == "a b c"
        while (await rig.threads.context(other, "t")).summary.state != "done":
            await asyncio.sleep(0.01)
    assert (await rig.threads.context(other, "t")).summary.text == "u v w"
    assert len(rig.model.salts) == 2
