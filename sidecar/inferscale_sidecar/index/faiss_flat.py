"""FAISS `IndexFlatIP` behind ids: exact, and fast to add to and remove from."""

from collections.abc import Collection, Sequence
from typing import Any

import faiss
import numpy as np

from inferscale_sidecar.index.base import Found, Vectors, rank

_EXTRA = 16


class FaissFlatIndex:
    """Implements `VectorIndex`.

    Args:
        dim: of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dim))
        self._labels: set[int] = set()

    def __len__(self) -> int:
        return len(self._labels)

    def put(self, labels: Sequence[int], vectors: Vectors) -> None:
        if not labels:
            return
        self.remove(self._labels.intersection(labels))
        matrix = np.ascontiguousarray(vectors, dtype=np.float32)
        self._index.add_with_ids(matrix, np.asarray(labels, dtype=np.int64))
        self._labels.update(labels)

    def remove(self, labels: Collection[int]) -> None:
        known = self._labels.intersection(labels)
        if known:
            self._index.remove_ids(np.fromiter(known, dtype=np.int64, count=len(known)))
            self._labels -= known

    def search(self, query: Vectors, k: int, *, allowed: Collection[int] | None = None) -> Found:
        among = self._labels if allowed is None else self._labels.intersection(allowed)
        k = min(k, len(among))
        if k == 0:
            return []
        params = None if len(among) == len(self) else _only(among)
        # One query has no work for a second thread, but would wait for it by spinning: 8 ms
        # instead of 0.05 ms on a busy machine. The setting is the calling thread's own.
        faiss.omp_set_num_threads(1)
        # FAISS breaks ties as it likes: look a little further, and if a tie reaches even beyond
        # that, look at everything, so that the cut at `k` falls where the port says.
        for fetch in (min(k + _EXTRA, len(among)), len(among)):
            scores, labels = self._index.search(query[None, :], fetch, params=params)
            found = rank(labels[0], scores[0], fetch)
            if fetch == len(among) or found[k - 1][1] > found[-1][1]:
                return found[:k]
        raise AssertionError("unreachable: the second search is complete")


def _only(labels: Collection[int]) -> Any:
    chosen = np.fromiter(labels, dtype=np.int64, count=len(labels))
    parameters: Any = faiss.SearchParameters  # its stub knows no keywords
    return parameters(sel=faiss.IDSelectorBatch(chosen))
