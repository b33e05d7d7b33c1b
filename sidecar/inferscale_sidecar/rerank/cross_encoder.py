"""Reranking by a sentence-transformers cross-encoder on this machine.

Owns one worker thread and the model. Invariant: work is handed over in small slices, so that a
query waits for at most one slice of another.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from inferscale_sidecar.errors import ConfigError

SLICE = 16


class CrossEncoderReranker:
    """Implements `Reranker`. Make it with `load`, which takes seconds.

    Args:
        model: a `CrossEncoder` with one output.
        name: of the model.
    """

    def __init__(self, model: Any, *, name: str) -> None:
        self._model = model
        self._name = name
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rerank")

    @classmethod
    def load(cls, model: str, *, device: str = "cpu") -> "CrossEncoderReranker":
        """Load a model; blocks for seconds, so call it from a thread.

        Args:
            model: a folder, or a hub name.
            device: torch device, e.g. `cpu` or `cuda:0`.

        Raises:
            ConfigError: the model cannot be loaded, or gives more than one number for a pair.
        """
        from sentence_transformers import CrossEncoder  # seconds to import

        try:
            loaded: Any = CrossEncoder(model, device=device)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"cannot load the reranker {model!r} on {device!r}: {error}. Name a folder or hub "
                "model that sentence-transformers' CrossEncoder loads, or unset rerank.model",
                param="rerank.model",
            ) from error
        if loaded.num_labels != 1:
            raise ConfigError(
                f"the reranker {model!r} gives {loaded.num_labels} numbers for a pair of texts; it "
                "must be one that gives a single score",
                param="rerank.model",
            )
        return cls(loaded, name=model)

    @property
    def name(self) -> str:
        return self._name

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        loop = asyncio.get_running_loop()
        scores: list[float] = []
        for start in range(0, len(texts), SLICE):
            pairs = [(query, text) for text in texts[start : start + SLICE]]
            scores += await loop.run_in_executor(self._pool, self._predict, pairs)
        return scores

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    def _predict(self, pairs: list[tuple[str, str]]) -> list[float]:
        found = self._model.predict(
            pairs, batch_size=SLICE, show_progress_bar=False, convert_to_numpy=True
        )
        return [float(score) for score in found]
