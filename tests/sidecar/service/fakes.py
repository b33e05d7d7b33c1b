"""Stand-ins that need no model and no waiting: an embedder, a frame and a clock."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from inferscale_sidecar.core import PinnedBlock

DIM = 32
TICK = timedelta(milliseconds=1)


class Clock:
    """A clock that moves when it is told to, and a little with each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += TICK
        return self.now

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)


class HashEmbedder:
    """A bag of words, each word a fixed direction: shared words mean a higher cosine."""

    name = "hash"
    dim = DIM

    def __init__(self) -> None:
        self.num_embedded = 0

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.num_embedded += len(texts)
        return np.stack([self._one(text) for text in texts]) if texts else np.empty((0, DIM))

    async def close(self) -> None: ...

    def _one(self, text: str) -> np.ndarray:
        total = np.zeros(DIM)
        for word in text.casefold().split() or [text]:
            seed = hashlib.sha256(word.encode()).digest()[:8]
            total += np.random.default_rng(int.from_bytes(seed)).normal(size=DIM)
        return (total / np.linalg.norm(total)).astype(np.float32)


class ListFrame:
    """The simplest block."""

    def render(self, items: Sequence[str], pinned: Sequence[PinnedBlock] = ()) -> str:
        return "".join(
            [*(f"[{b.label}] {b.value}\n" for b in pinned), *(f"- {i}\n" for i in items)]
        )
