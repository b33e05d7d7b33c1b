"""The port of a vector index: exact inner-product search over labelled vectors, in memory.

Invariant of every implementation: results depend on the set of (label, vector) pairs only, never on
the order in which they came; equal scores are ordered by label, larger first.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Found = list[tuple[int, float]]

SCORE_DIGITS = 6
"""Scores are rounded to what float32 dot products agree on; beyond that, ties would be noise."""


class VectorIndex(Protocol):
    """Labels are distinct integers; vectors are L2-normalised, so scores are cosines."""

    def __len__(self) -> int: ...

    def put(self, labels: Sequence[int], vectors: Vectors) -> None:
        """Add vectors `[n, dim]`, replacing those whose label is there already."""

    def remove(self, labels: Collection[int]) -> None:
        """Forget these labels; unknown ones are ignored."""

    def search(self, query: Vectors, k: int, *, allowed: Collection[int] | None = None) -> Found:
        """The `k` best (label, score), best first, ties by larger label.

        Args:
            query: one vector `[dim]`.
            k: at most this many; 0 finds nothing.
            allowed: only among these labels; None means all of them.
        """


IndexFactory = Callable[[int], VectorIndex]
"""Makes an empty index for vectors of so many dimensions."""


def rank(labels: Labels, scores: Vectors, k: int) -> Found:
    """Round, order best first with ties by larger label, and cut to `k`."""
    rounded = np.clip(np.round(scores.astype(np.float64), SCORE_DIGITS), -1.0, 1.0)
    best = np.lexsort((-labels, -rounded))[:k]
    return [(int(labels[i]), float(rounded[i])) for i in best]
