"""The cross-encoder, with a real model: tiny, random, made here."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.rerank import CrossEncoderReranker
from inferscale_sidecar.rerank.cross_encoder import SLICE

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "apple", "blue", "sky", "tea"]


def make_model(folder: Path, *, labels: int = 1) -> str:
    """A BERT of 32 dimensions with random weights, seeded, as `CrossEncoder` loads it."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=1.0,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    vocab = {word: number for number, word in enumerate(WORDS)}
    transformers.BertTokenizerFast(vocab=vocab).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_model(tmp_path_factory.mktemp("cross-encoder"))


@pytest.fixture
async def reranker(model: str) -> AsyncIterator[CrossEncoderReranker]:
    reranker = CrossEncoderReranker.load(model)
    yield reranker
    await reranker.close()


async def test_scores_are_the_models_own_in_order(reranker: Any, model: str) -> None:
    from sentence_transformers import CrossEncoder

    texts = ["red apple", "blue sky", "tea", "red sky tea"]
    scores = await reranker.score("red apple", texts)
    pairs = [("red apple", text) for text in texts]
    expected = CrossEncoder(model, device="cpu").predict(pairs, show_progress_bar=False)
    assert scores == pytest.approx(expected.tolist(), abs=1e-5)
    assert len(set(scores)) == len(texts)
    turned = await reranker.score("red apple", texts[::-1])
    assert turned == pytest.approx(scores[::-1], abs=1e-5)


async def test_any_number_of_texts_of_any_length(reranker: Any) -> None:
    assert await reranker.score("tea", []) == []
    texts = ["tea " * (i % 9 + 1) for i in range(2 * SLICE + 3)] + ["tea " * 5_000]
    assert len(await reranker.score("tea", texts)) == len(texts)


async def test_the_loop_goes_on_and_one_thread_does_the_work(reranker: Any) -> None:
    before = threading.active_count()
    many = asyncio.gather(*(reranker.score("tea", ["red apple"] * 40) for _ in range(4)))
    turns = 0
    while not many.done():
        await asyncio.sleep(0)
        turns += 1
        assert threading.active_count() <= before + 1
    assert turns > 1 and {len(scores) for scores in await many} == {40}


def test_a_folder_without_a_model_and_a_classifier_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot load the reranker"):
        CrossEncoderReranker.load(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="gives 3 numbers"):
        CrossEncoderReranker.load(make_model(tmp_path / "classifier", labels=3))
