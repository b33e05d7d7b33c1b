"""In which order items stand in the block, and how many of them are left to exact attention.

Owns the rules and nothing else. Invariant: a pure function of the hits, so that the same search
always gives the same composition, and the same composition the same suffix.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from inferscale.protocol.chat import Fidelity
from inferscale_sidecar.core import CompositionItem, Hit

SUFFIX_SHARE = 0.2
MAX_SUFFIX_ITEMS = 2
"""More come closer to the text by little for what they cost (docs/quality.md): KL at 50 items is
0.062, 0.050 and 0.041 with 0, 2 and 5 of them, TTFT 69, 89 and 124 ms on a CPU."""
SCORE_TEMPERATURE = 0.1
"""Cosines of one search differ by a few tenths: this makes the best weigh e² of one 0.2 below."""
SCORE_MASS = 0.6
MAX_TEXT_SHARE = 0.25


def suffix_items(n: int) -> int:
    """How many of `n` items, the best ones, are prefilled behind the injected ones: 1, or 2 of at
    least 8.
    """
    return min(n, MAX_SUFFIX_ITEMS, max(1, int(SUFFIX_SHARE * n + 0.5)))


def exact_items(items: Sequence[CompositionItem], fidelity: Fidelity) -> int:
    """How many items, the last ones, a request leaves to prefill.

    `balanced` takes as few of the best as hold `SCORE_MASS` of the softmax over the scores, at
    most `suffix_items` and, beyond the first, at most `MAX_TEXT_SHARE` of the text.

    Args:
        items: of a composition, best last.
        fidelity: what the request asks for.
    """
    if fidelity == "exact":
        return len(items)
    if fidelity == "fast" or not items:
        return 0
    best = max(item.score for item in items)
    weights = [math.exp((item.score - best) / SCORE_TEMPERATURE) for item in items]
    mass, text = SCORE_MASS * sum(weights), MAX_TEXT_SHARE * sum(len(i.text) for i in items)
    count = 0
    while count < suffix_items(len(items)) and mass > 0:
        count += 1
        mass -= weights[-count]
        text -= len(items[-count].text)
        if count < len(items) and text < len(items[-count - 1].text):
            break
    return count


def order(hits: Sequence[Hit], *, suffix_items: int) -> tuple[CompositionItem, ...]:
    """Ascending relevance, best last; what can be injected first, so that it stands contiguously.

    Args:
        hits: what a search found, in any order.
        suffix_items: how many of the best stay at the very end, whatever the state of their KV.

    Returns:
        Ready items, then items whose KV is not there yet, then the best; each part ascending by
            score,
        ties by age and id.
    """
    if suffix_items < 0:
        raise ValueError(f"suffix_items is {suffix_items}; it must be 0 or more")
    ascending = sorted(hits, key=_rank)
    cut = max(0, len(ascending) - suffix_items)
    head, best = ascending[:cut], ascending[cut:]
    ready = [hit for hit in head if hit.memory.kv_state == "ready"]
    waiting = [hit for hit in head if hit.memory.kv_state != "ready"]
    return tuple(_item(hit) for hit in (*ready, *waiting, *best))


def _rank(hit: Hit) -> tuple[bool, float, float, datetime, str]:
    """What a reranker has looked at stands above what it has not."""
    reranked = hit.rerank_score is not None
    memory = hit.memory
    return (reranked, hit.rerank_score or 0.0, hit.score, memory.created_at, memory.id)


def _item(hit: Hit) -> CompositionItem:
    memory = hit.memory
    return CompositionItem(memory.id, memory.version, memory.text, hit.score)
