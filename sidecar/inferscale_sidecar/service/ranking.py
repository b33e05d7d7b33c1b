"""How hits are ranked: closeness in meaning, shared rare words, age, variety. Pure functions.

Meaning and words are added as scores, not as ranks: ranks forget how sure each of the two is. On
questions about real conversations that finds more than reciprocal ranks do (20 hits: 78 % of what
answers them against 70 %, and 77 % by meaning alone).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from inferscale.protocol.memory import SearchMode
from inferscale_sidecar.core import ScoreDetails
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.index.base import SCORE_DIGITS
from inferscale_sidecar.store.records import Vector

RECENCY_WEIGHT = 0.2
MIN_POOL = 100
"""At least so many of the best by meaning, and by words, are looked at."""


@dataclass(frozen=True)
class Ranking:
    """What the caller wants.

    Args:
        mode: `hybrid`, `dense` (meaning only) or `keyword` (only what shares a word).
        diversity: 0 to 1; how much a hit loses for being like one before it.
        recency_days: after so many days the bonus for being new is half; None for no bonus.
        rerank: order the best by a reranker, whose order neither variety nor newness changes.
    """

    mode: SearchMode = "hybrid"
    diversity: float = 0.0
    recency_days: float | None = None
    rerank: bool = False

    def check(self) -> None:
        """Raises InvalidInput for what contradicts itself."""
        if self.rerank and (self.diversity or self.recency_days is not None):
            raise InvalidInput(
                "rerank orders the hits by the reranker alone; leave out diversity and "
                "recency_days, or rerank",
                param="rerank",
            )


@dataclass(frozen=True)
class Candidate:
    """A memory by its number, and why it stands where it stands."""

    num: int
    score: float
    details: ScoreDetails


def pool_size(k: int) -> int:
    """How many candidates to rank for `k` hits."""
    return max(2 * k, MIN_POOL)


def score(
    num: int, similarity: float, keyword: float, age_days: float, ranking: Ranking
) -> Candidate:
    """One candidate's score: the cosine, raised by shared words, at most 1.

    Args:
        similarity: cosine.
        keyword: BM25 as a share of what is possible, 0 to 1.
        age_days: since it was said, or stored.
    """
    if ranking.mode == "keyword":
        total = keyword
    elif ranking.mode == "dense":
        total = similarity
    else:
        total = similarity + keyword * (1 - similarity)
    recency = None
    if ranking.recency_days is not None:
        recency = 0.5 ** (max(0.0, age_days) / ranking.recency_days)
        total = (1 - RECENCY_WEIGHT) * total + RECENCY_WEIGHT * recency
    return Candidate(num, round(total, SCORE_DIGITS), ScoreDetails(similarity, keyword, recency))


def best(
    candidates: Sequence[Candidate], k: int, ranking: Ranking, vector_of: Callable[[int], Vector]
) -> list[Candidate]:
    """The `k` best, best first; equal ones newest first."""
    ordered = sorted(candidates, key=lambda each: (-each.score, -each.num))
    if not ranking.diversity or len(ordered) < 2:
        return ordered[:k]
    return _varied(ordered, k, ranking.diversity, vector_of)


def _varied(
    ordered: Sequence[Candidate], k: int, diversity: float, vector_of: Callable[[int], Vector]
) -> list[Candidate]:
    """Maximal marginal relevance: each next one is good, and unlike those before it."""
    vectors = np.stack([vector_of(each.num) for each in ordered])
    scores = np.array([each.score for each in ordered])
    likeness = np.full(len(ordered), -1.0)
    left = np.ones(len(ordered), dtype=bool)
    chosen: list[Candidate] = []
    while left.any() and len(chosen) < k:
        gain = scores if not chosen else (1 - diversity) * scores - diversity * likeness
        at = int(np.argmax(np.where(left, np.round(gain, SCORE_DIGITS), -np.inf)))
        left[at] = False
        chosen.append(ordered[at])
        likeness = np.maximum(likeness, vectors @ vectors[at])
    return chosen


def age_days(then: datetime, now: datetime) -> float:
    """Days between two aware times; negative for what lies ahead."""
    return (now - then).total_seconds() / 86_400
