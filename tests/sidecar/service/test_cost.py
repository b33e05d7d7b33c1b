"""What an operation costs is counted, not timed: embedder calls, statements, times of events."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy import event
from sqlalchemy.engine import Engine

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.search import Searcher

from .fakes import HashEmbedder

ALICE = Scope(user_id="alice")


class CountingEmbedder(HashEmbedder):
    """Remembers how many texts each call had."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(len(texts))
        return await super().embed(texts)


@contextmanager
def _statements() -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def _many(number: int) -> list[Message]:
    return [Message(content=f"note {at} of {number}") for at in range(number)]


async def test_a_search_embeds_its_query_once_and_an_addition_all_texts_together(
    world: Any,
) -> None:
    embedder, metrics = CountingEmbedder(), Metrics()
    memory = MemoryService(world.store, embedder, Searcher(world.store, embedder, metrics), metrics)
    await memory.add(world.tenant, ALICE, _many(100))
    await memory.search(world.tenant, ALICE, "note 7", limit=50)
    assert embedder.calls == [100, 1]


async def test_forgetting_a_scope_takes_as_many_statements_for_many_as_for_few(
    world: Any,
) -> None:
    counts = []
    for number in (2, 200):
        await world.memory.add(world.tenant, ALICE, _many(number))
        with _statements() as seen:
            removed = await world.memory.delete_all(world.tenant, ALICE)
        assert removed.memories == number
        counts.append(len(seen))
    assert counts[0] == counts[1]


async def test_every_event_of_a_history_has_its_time_the_deletion_too(world: Any) -> None:
    (added,) = await world.memory.add(world.tenant, ALICE, "she likes tea")
    await world.memory.update(world.tenant, added.memory.id, text="she likes coffee")
    await world.memory.delete(world.tenant, added.memory.id)
    events = await world.memory.history(world.tenant, added.memory.id)
    assert [each.event for each in events] == ["ADD", "UPDATE", "DELETE"]
    assert all(one.created_at < next_.created_at for one, next_ in pairwise(events))
    assert all(each.created_at.utcoffset() is not None for each in events)
