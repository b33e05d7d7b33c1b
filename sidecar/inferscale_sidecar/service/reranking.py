"""The best of a search, ordered again by a reranker.

Owns how many it looks at, and what becomes of the others. Invariant: it changes the order and
nothing else: the hits are those of the search, and ties keep its order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inferscale_sidecar.core import Hit
from inferscale_sidecar.index.base import SCORE_DIGITS
from inferscale_sidecar.rerank import Reranker

DEFAULT_CANDIDATES = 50


@dataclass(frozen=True)
class Reranking:
    """A reranker in use.

    Args:
        reranker: reads texts beside the query.
        candidates: it reads so many of the best hits; the others keep their place behind them.
    """

    reranker: Reranker
    candidates: int = DEFAULT_CANDIDATES

    async def order(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The hits, best first."""
        head, tail = hits[: self.candidates], hits[self.candidates :]
        scores = await self.reranker.score(query, [hit.memory.text for hit in head])
        read = [
            replace(hit, rerank_score=round(score, SCORE_DIGITS))
            for hit, score in zip(head, scores, strict=True)
        ]
        return [*sorted(read, key=lambda hit: -(hit.rerank_score or 0.0)), *tail]
