"""The truth: plain numpy. Slower to change than FAISS, and obviously right."""

from collections.abc import Collection, Sequence

import numpy as np

from inferscale_sidecar.index.base import Found, Labels, Vectors, rank


class FlatIndex:
    """Implements `VectorIndex` over one matrix.

    Args:
        dim: of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self._labels: Labels = np.empty(0, dtype=np.int64)
        self._vectors: Vectors = np.empty((0, dim), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._labels)

    def put(self, labels: Sequence[int], vectors: Vectors) -> None:
        self.remove(labels)
        self._labels = np.concatenate([self._labels, np.asarray(labels, dtype=np.int64)])
        self._vectors = np.concatenate([self._vectors, vectors.astype(np.float32)])

    def remove(self, labels: Collection[int]) -> None:
        keep = ~np.isin(self._labels, list(labels))
        self._labels, self._vectors = self._labels[keep], self._vectors[keep]

    def search(self, query: Vectors, k: int, *, allowed: Collection[int] | None = None) -> Found:
        labels, vectors = self._labels, self._vectors
        if allowed is not None:
            chosen = np.isin(labels, list(allowed))
            labels, vectors = labels[chosen], vectors[chosen]
        return rank(labels, vectors @ query, k)
