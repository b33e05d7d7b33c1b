"""Figures of an arm from its questions, with intervals. Pure numpy.

Invariant: an interval resamples whole conversations, because questions about one list of facts are
not independent of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

HELPS_NATS = 0.1
"""Memory has to help by so much per answer token for a question to count as one it helps with."""
RESAMPLES = 4000


@dataclass(frozen=True)
class Scored:
    """One question under one arm, all means over the answer's tokens.

    Attributes:
        cluster: conversation.
        none, stuffed, arm: negative log-likelihood of the gold answer in nats.
        kl: of the arm's distribution from that of the stuffed text, full vocabulary.
        top1: share of positions with the same best token.
        suffix: items left to exact attention.
    """

    cluster: str
    none: float
    stuffed: float
    arm: float
    kl: float
    top1: float
    suffix: int


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def nll(logprobs: np.ndarray, ids: Sequence[int]) -> float:
    """Mean negative log-likelihood of `ids` under logprobs `[len(ids), vocabulary]`."""
    return float(-logprobs[np.arange(len(ids)), list(ids)].mean())


def kl(truth: np.ndarray, other: np.ndarray) -> float:
    """Mean over positions of KL(truth ‖ other), of two logprob arrays of equal shape."""
    return float((np.exp(truth) * (truth - other)).sum(-1).mean())


def top1(truth: np.ndarray, other: np.ndarray) -> float:
    """Share of positions where both like the same token best."""
    return float((truth.argmax(-1) == other.argmax(-1)).mean())


def by_position(truth: np.ndarray, got: np.ndarray, answer: Sequence[int]) -> dict[str, Any]:
    """Lists over the positions of the answer, of two logprob arrays `[positions, vocabulary]`."""
    return {
        "kl": (np.exp(truth) * (truth - got)).sum(-1).round(5).tolist(),
        "same": (truth.argmax(-1) == got.argmax(-1)).tolist(),
        "hit": (got.argmax(-1) == np.array(answer)).tolist(),
        "text_hit": (truth.argmax(-1) == np.array(answer)).tolist(),
    }


def recovered(scored: Sequence[Scored], *, only_helped: bool = True) -> float:
    """Share of the benefit of memory that the arm keeps, as a ratio of sums (nan: no benefit)."""
    counted = [s for s in scored if s.none - s.stuffed > HELPS_NATS or not only_helped]
    benefit = sum(s.none - s.stuffed for s in counted)
    return sum(s.none - s.arm for s in counted) / benefit if benefit else float("nan")


def interval(scored: Sequence[Scored], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of `recovered`, resampling conversations."""
    names = sorted({s.cluster for s in scored})
    sums = np.zeros((len(names), 2))
    for s in scored:
        if s.none - s.stuffed > HELPS_NATS:
            sums[names.index(s.cluster)] += (s.none - s.arm, s.none - s.stuffed)
    if not sums[:, 1].any():
        return float("nan"), float("nan")
    drawn = np.random.default_rng(seed).integers(len(names), size=(RESAMPLES, len(names)))
    kept, benefit = sums[drawn].sum(1).T
    low, high = np.percentile(kept[benefit > 0] / benefit[benefit > 0], [2.5, 97.5])
    return float(low), float(high)
