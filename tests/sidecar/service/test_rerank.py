"""Reranking in searches and recalls: order, ties, how many are read, what it goes not with."""

from collections.abc import Sequence
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import InvalidInput, Unsupported
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.ranking import Ranking
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.reranking import Reranking
from inferscale_sidecar.service.search import Searcher

from .fakes import ListFrame

ALICE = Scope(user_id="alice")
RERANK = Ranking(rerank=True)


class ByLength:
    """Longer texts answer better; remembers what it was asked."""

    name = "by length"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        return [len(text) / 1_000 for text in texts]

    async def close(self) -> None: ...


class Reranked:
    """The services of a world, with a reranker."""

    def __init__(self, world: Any, candidates: int) -> None:
        self.reranker = ByLength()
        searcher = Searcher(
            world.store,
            world.embedder,
            world.metrics,
            create_index=FlatIndex,
            clock=world.clock,
            reranking=Reranking(self.reranker, candidates),
        )
        self.memory = MemoryService(
            world.store, world.embedder, searcher, world.metrics, clock=world.clock
        )
        self.recall = RecallService(
            world.store, searcher, ListFrame(), world.metrics, clock=world.clock
        )


async def _add(world: Any, *texts: str) -> None:
    await world.memory.add(world.tenant, ALICE, [Message(content=text) for text in texts])


async def test_the_reranker_decides_and_the_first_scores_stay(world: Any) -> None:
    await _add(world, "tea", "tea tea black", "tea and more words than that", "milk")
    reranked = Reranked(world, 10)
    plain = await reranked.memory.search(world.tenant, ALICE, "tea", limit=3)
    assert reranked.reranker.asked == []
    assert all(hit.rerank_score is None for hit in plain)
    hits = await reranked.memory.search(world.tenant, ALICE, "tea", limit=3, ranking=RERANK)
    texts = [hit.memory.text for hit in hits]
    assert texts == ["tea and more words than that", "tea tea black", "milk"]
    assert [hit.rerank_score for hit in hits] == [len(text) / 1_000 for text in texts]
    (asked,) = reranked.reranker.asked
    assert asked[0] == "tea" and len(asked[1]) == 4  # more than are wanted are read
    by_text = {hit.memory.text: hit.score for hit in plain}
    assert all(hit.score == by_text.get(hit.memory.text, hit.score) for hit in hits)


async def test_ties_keep_the_searchs_order(world: Any) -> None:
    await _add(world, *(f"tea {i}" for i in range(9)))
    reranked = Reranked(world, 50)
    plain = await reranked.memory.search(world.tenant, ALICE, "tea 4", limit=9)
    hits = await reranked.memory.search(world.tenant, ALICE, "tea 4", limit=9, ranking=RERANK)
    assert [hit.memory.id for hit in hits] == [hit.memory.id for hit in plain]


async def test_only_the_best_are_read_and_the_rest_follows(world: Any) -> None:
    await _add(world, *("tea " + "x" * i for i in range(8)))
    reranked = Reranked(world, 3)
    plain = await reranked.memory.search(world.tenant, ALICE, "tea", limit=8)
    hits = await reranked.memory.search(world.tenant, ALICE, "tea", limit=8, ranking=RERANK)
    assert [hit.rerank_score is not None for hit in hits] == [True] * 3 + [False] * 5
    assert [hit.memory.id for hit in hits[3:]] == [hit.memory.id for hit in plain[3:]]
    assert {hit.memory.id for hit in hits[:3]} == {hit.memory.id for hit in plain[:3]}
    assert len(await reranked.memory.search(world.tenant, ALICE, "tea", limit=2)) == 2


async def test_the_threshold_is_about_the_first_score(world: Any) -> None:
    await _add(world, "tea", "something else altogether, and long")
    reranked = Reranked(world, 10)
    hits = await reranked.memory.search(world.tenant, ALICE, "tea", threshold=0.9, ranking=RERANK)
    assert [hit.memory.text for hit in hits] == ["tea"]
    assert await reranked.memory.search(world.tenant, ALICE, "tea", limit=0, ranking=RERANK) == []


async def test_a_recall_has_the_rerankers_best_last(world: Any) -> None:
    await _add(world, "tea", "tea tea black", "tea and more words than that")
    reranked = Reranked(world, 10)
    made = await reranked.recall.recall(world.tenant, ALICE, "tea", k=3, ranking=RERANK)
    assert [item.text for item in made.items] == [
        "tea",
        "tea tea black",
        "tea and more words than that",
    ]


async def test_without_a_reranker_it_is_a_clear_error(world: Any) -> None:
    for limit in (0, 3):
        with pytest.raises(Unsupported, match=r"set rerank\.model"):
            await world.memory.search(world.tenant, ALICE, "tea", limit=limit, ranking=RERANK)
    with pytest.raises(Unsupported, match=r"set rerank\.model"):
        await world.recall.recall(world.tenant, ALICE, "tea", ranking=RERANK)


@pytest.mark.parametrize("other", [{"diversity": 0.5}, {"recency_days": 3.0}])
async def test_it_goes_with_nothing_that_it_would_undo(world: Any, other: Any) -> None:
    with pytest.raises(InvalidInput, match="leave out diversity"):
        await Reranked(world, 9).memory.search(
            world.tenant, ALICE, "tea", ranking=Ranking(rerank=True, **other)
        )
