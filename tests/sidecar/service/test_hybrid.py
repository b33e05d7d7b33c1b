"""Ranking: words beside meaning, variety, newness, and an explanation that adds up."""

from datetime import timedelta
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Hit, Scope
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.service.ranking import Ranking, pool_size
from inferscale_sidecar.service.search import Searcher

ALICE = Scope(user_id="alice")


async def _add(world: Any, *texts: str, **options: Any) -> None:
    await world.memory.add(world.tenant, ALICE, [Message(content=t) for t in texts], **options)


async def _find(world: Any, query: str, *, k: int = 10, **options: Any) -> list[Hit]:
    threshold = options.pop("threshold", None)
    filters = options.pop("filters", None)
    ranking = Ranking(**options)
    hits: list[Hit] = await world.memory.search(
        world.tenant, ALICE, query, limit=k, ranking=ranking, threshold=threshold, filters=filters
    )
    return hits


async def test_names_and_numbers_are_found_by_their_words(world: Any) -> None:
    await _add(world, *(f"note about thing {i}" for i in range(pool_size(3) + 50)))
    await _add(world, "the invoice INV-2041, which is from Ms Thistlewood, is still not paid, alas")
    await _add(world, *(f"invoice paid {i}" for i in range(pool_size(3) + 50)))
    found = await _find(world, "Thistlewood", k=3)
    assert "Thistlewood" in found[0].memory.text
    dense = await _find(world, "Thistlewood", k=3, mode="dense")
    assert "Thistlewood" not in dense[0].memory.text


async def test_modes(world: Any) -> None:
    await _add(world, "green tea", "red wine", "blue sky")
    assert [h.memory.text for h in await _find(world, "tea", mode="keyword")] == ["green tea"]
    assert len(await _find(world, "tea", mode="dense")) == len(await _find(world, "tea")) == 3
    for hit in await _find(world, "tea", mode="dense"):
        assert hit.details is not None
        assert hit.score == hit.details.similarity


async def test_words_raise_a_score_and_their_absence_costs_nothing(world: Any) -> None:
    await _add(world, "green tea", "red wine")
    for hit in await _find(world, "green tea leaves"):
        assert hit.details is not None
        cosine, words = hit.details.similarity, hit.details.keyword
        assert hit.score == pytest.approx(cosine + words * (1 - cosine), abs=1e-6)
        assert (words > 0) == ("tea" in hit.memory.text)
        assert cosine <= hit.score <= 1


async def test_the_threshold_is_on_the_score(world: Any) -> None:
    await _add(world, "green tea", "red wine")
    best, worst = await _find(world, "tea")
    assert len(await _find(world, "tea", threshold=best.score)) == 1
    assert len(await _find(world, "tea", threshold=worst.score)) == 2


async def test_filters_and_other_scopes_hold_for_words_too(world: Any) -> None:
    await _add(world, "green tea", metadata={"a": 1})
    await _add(world, "black tea", metadata={"a": 2})
    await world.memory.add(world.tenant, Scope(user_id="bob"), "white tea")
    found = await _find(world, "tea", mode="keyword", filters={"a": 2})
    assert [hit.memory.text for hit in found] == ["black tea"]
    assert len(await _find(world, "tea", mode="keyword")) == 2


async def test_words_follow_updates_and_deletions(world: Any) -> None:
    (added,) = await world.memory.add(world.tenant, ALICE, "green tea")
    assert await _find(world, "tea", mode="keyword")
    await world.memory.update(world.tenant, added.memory.id, text="red wine")
    assert not await _find(world, "tea", mode="keyword")
    assert await _find(world, "wine", mode="keyword")
    await world.memory.delete(world.tenant, added.memory.id)
    assert not await _find(world, "wine", mode="keyword")


async def test_variety_avoids_more_of_the_same(world: Any) -> None:
    await _add(world, "tea is green", "tea is so green", "green tea is green", "tea from Japan")
    plain = [h.memory.text for h in await _find(world, "tea is green", k=2)]
    varied = [h.memory.text for h in await _find(world, "tea is green", k=2, diversity=0.7)]
    assert plain[0] == varied[0] == "tea is green"
    assert "Japan" not in plain[1]
    assert "Japan" in varied[1]


async def test_newness_by_when_it_was_said(world: Any) -> None:
    now = world.clock.now
    for days, text in ((400, "tea at noon old"), (1, "tea at noon new")):
        message = Message(content=text, timestamp=now - timedelta(days=days))
        await world.memory.add(world.tenant, ALICE, message)
    searcher = Searcher(
        world.store, world.embedder, world.metrics, create_index=FlatIndex, clock=world.clock
    )
    hits = await searcher.search(
        world.tenant, ALICE, "tea at noon", k=2, ranking=Ranking(recency_days=30)
    )
    assert [hit.memory.text for hit in hits] == ["tea at noon new", "tea at noon old"]
    newest, oldest = (hit.details.recency for hit in hits if hit.details)
    assert newest == pytest.approx(0.5 ** (1 / 30), abs=1e-3)
    assert oldest is not None
    assert oldest < 0.001


async def test_the_same_question_gives_the_same_list(world: Any) -> None:
    await _add(world, *(f"tea {i % 3} {'x' * (i // 3)}" for i in range(30)))
    for options in ({}, {"diversity": 0.5}, {"mode": "keyword"}):
        first = [h.memory.id for h in await _find(world, "tea 1", **options)]
        other = Searcher(world.store, world.embedder, world.metrics)
        again = await other.search(world.tenant, ALICE, "tea 1", k=10, ranking=Ranking(**options))
        assert first == [hit.memory.id for hit in again]


async def test_recall_ranks_alike(world: Any) -> None:
    await _add(world, "green tea", "red wine", "blue sky")
    ranking = Ranking(mode="keyword")
    composition = await world.recall.recall(world.tenant, ALICE, "wine", ranking=ranking)
    assert [item.text for item in composition.items] == ["red wine"]
