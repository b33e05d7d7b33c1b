"""Orders of a served list, and how many of its items are left to prefill. Pure."""

import random
from collections.abc import Sequence

import numpy as np
from benchmarks.quality.trials.series import UNLIKE, Arm

ALIKE = 0.5
"""A cosine from which on one fact could be mistaken for another."""


def best_last(vectors: np.ndarray, query: np.ndarray, k: int) -> list[int]:
    """Numbers of the `k` facts closest to the question, as the product serves them."""
    scores = vectors @ query
    return [int(n) for n in np.argsort(-scores, kind="stable")[:k][::-1]]


def ordered(order: str, usual: Sequence[int], vectors: np.ndarray) -> list[int]:
    """A served list in another order; `best_last` and frames are the usual one.

    Args:
        order: what an arm names.
        usual: numbers of the facts, best last.
        vectors: unit vectors `[facts, dim]`.
    """
    chosen, rng = list(usual), random.Random(sum(usual))
    half = len(chosen) // 2
    if order == "far_half_shuffled":
        far = chosen[:half]
        rng.shuffle(far)
        return far + chosen[half:]
    if order == "far_half_built":
        return sorted(chosen[:half]) + chosen[half:]
    if order == "without_worst":
        return chosen[1:]
    if order == "all_shuffled":
        rng.shuffle(chosen)
    if order in ("chronological", "built"):
        chosen.sort()
    if order == "alike_last":
        alike = _alike(chosen, vectors)
        return [n for n in chosen if n not in alike] + [n for n in chosen if n in alike]
    return chosen


def left(arm: Arm, chosen: Sequence[int], vectors: np.ndarray) -> int:
    """How many items at the end an arm leaves to prefill."""
    return min(len(chosen) - 1, len(_alike(chosen, vectors)) if arm.r == UNLIKE else arm.r)


def _alike(chosen: Sequence[int], vectors: np.ndarray) -> set[int]:
    close = vectors[list(chosen)] @ vectors[chosen[-1]]
    return {n for n, cosine in zip(chosen, close, strict=True) if cosine >= ALIKE}
