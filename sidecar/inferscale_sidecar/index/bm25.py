"""BM25 over labelled texts, in memory: the half of a hybrid search that knows names and numbers.

Owns postings; terms come from `words`, so every script works. Invariants: results depend on the set
of (label, text) pairs only; equal scores are ordered by label, larger first; a score is the share
of the best that any text could reach for the query, 0 to 1, so that it can stand beside a cosine.
"""

import math
from array import array
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from inferscale_sidecar.index.base import SCORE_DIGITS, Found
from inferscale_sidecar.index.words import terms

K1, B = 1.2, 0.75
_MIN_DEAD = 256


class Bm25Index:
    """Texts by label. A removed text leaves a hole; holes are closed when they are the half."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._slot: dict[int, int] = {}
        self._labels = array("q")
        self._lengths = array("d")  # in terms; 0 marks a hole
        self._texts: list[str] = []
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._num_with: Counter[str] = Counter()
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._slot)

    def put(self, labels: Sequence[int], texts: Sequence[str]) -> None:
        """Add texts, replacing those whose label is there already."""
        self.remove([label for label in labels if label in self._slot])
        for label, text in zip(labels, texts, strict=True):
            counts = Counter(terms(text))
            slot = self._slot[label] = len(self._labels)
            length = max(1, counts.total())
            self._labels.append(label)
            self._lengths.append(length)
            self._texts.append(text)
            self._total += length
            self._num_with.update(counts.keys())
            for term, count in counts.items():
                slots, numbers = self._postings.setdefault(term, (array("q"), array("q")))
                slots.append(slot)
                numbers.append(count)

    def remove(self, labels: Collection[int]) -> None:
        """Forget these labels; unknown ones are ignored."""
        for label in labels:
            slot = self._slot.pop(label, None)
            if slot is None:
                continue
            self._total -= self._lengths[slot]
            self._lengths[slot] = 0
            self._num_with.subtract(set(terms(self._texts[slot])))
            self._texts[slot] = ""
        dead = len(self._labels) - len(self._slot)
        if dead > max(_MIN_DEAD, len(self._slot)):
            kept = {label: self._texts[slot] for label, slot in self._slot.items()}
            self._clear()
            self.put(list(kept), list(kept.values()))

    def search(self, query: str, k: int, *, allowed: Collection[int] | None = None) -> Found:
        """The `k` best (label, score) that share a term with the query, best first."""
        if not self._slot or k == 0:
            return []
        scores, best = self._scores(Counter(terms(query)))
        if best == 0:
            return []
        if allowed is not None:
            mask = np.zeros(len(scores), dtype=bool)
            mask[[self._slot[label] for label in allowed if label in self._slot]] = True
            scores = np.where(mask, scores, 0)
        rounded = np.round(scores / best, SCORE_DIGITS)
        found = np.flatnonzero(rounded > 0)
        if len(found) > k:
            cut = np.partition(rounded[found], -k)[-k]
            found = found[rounded[found] >= cut]
        labels = np.frombuffer(self._labels, dtype=np.int64)[found]
        order = np.lexsort((-labels, -rounded[found]))[:k]
        return [(int(labels[i]), float(rounded[found[i]])) for i in order]

    def _scores(self, query: Counter[str]) -> tuple[npt.NDArray[np.float64], float]:
        """The score of every slot, and the bound that none can exceed."""
        lengths = np.frombuffer(self._lengths, dtype=np.float64)
        scores = np.zeros(len(lengths))
        norm = K1 * (1 - B + B * lengths / (self._total / len(self._slot)))
        best = 0.0
        for term in query:
            num_with = self._num_with[term]
            rarity = math.log(1 + (len(self._slot) - num_with + 0.5) / (num_with + 0.5))
            best += rarity * (K1 + 1)
            if num_with:
                slots, numbers = self._postings[term]
                at = np.frombuffer(slots, dtype=np.int64)
                count = np.frombuffer(numbers, dtype=np.int64)
                scores[at] += rarity * count * (K1 + 1) / (count + norm[at])
        return np.where(lengths > 0, scores, 0), best
