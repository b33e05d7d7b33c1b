"""A case as token ids: the chat prompt with its memory block, and the answer behind it.

Owns retrieval (the project's embedder, best last, as `compose.order`) and the two prompts. The
stuffed and the injected arm always get the same ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.quality.cases import Case

from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.core import CompositionItem
from inferscale_sidecar.engine.tokenizer import ChatTokenizer

SYSTEM = "You answer questions with a short phrase, using what you remember."
MAX_ANSWER_TOKENS = 16


@dataclass(frozen=True)
class Prompt:
    """A case with `k` of its facts.

    Attributes:
        ids: the prompt with memory.
        chosen: numbers of the facts in it, best last.
        scores: their cosines.
        head: tokens before the first fact.
    """

    ids: tuple[int, ...]
    chosen: tuple[int, ...]
    scores: tuple[float, ...]
    head: tuple[int, ...]

    def items(self, case: Case) -> list[CompositionItem]:
        """The facts as the sidecar's composition has them."""
        pairs = zip(self.chosen, self.scores, strict=True)
        return [CompositionItem(str(n), 1, case.pool.facts[n], score) for n, score in pairs]


class Prompter:
    """Makes prompts for one model.

    Args:
        tokenizer, lists: of that model.
        system: the system message; empty for none but the memory block.
    """

    def __init__(
        self, tokenizer: ChatTokenizer, lists: ListTokenizer, system: str = SYSTEM
    ) -> None:
        self._tokenizer, self._lists, self._system = tokenizer, lists, system

    def with_memory(self, case: Case, k: int, vectors: np.ndarray, query: np.ndarray) -> Prompt:
        """The prompt with the `k` facts closest to the question."""
        scores = vectors @ query
        best = tuple(int(n) for n in np.argsort(-scores, kind="stable")[:k][::-1])
        return Prompt(self.of(case, best), best, tuple(float(scores[n]) for n in best), self.head())

    def of(self, case: Case, chosen: Sequence[int]) -> tuple[int, ...]:
        """The prompt with these facts in this order."""
        block = self._lists.frame.render([case.pool.facts[n] for n in chosen])
        return self._tokenizer.encode(self._render(case.question, block)).ids

    def head(self) -> tuple[int, ...]:
        """The tokens before the first fact: the same for every question."""
        frame = self._lists.frame
        block = frame.render(["."])
        text = self._render(".", block)
        first = text.index(block) + len(frame.heading)
        encoded = self._tokenizer.encode(text)
        pairs = zip(encoded.ids, encoded.offsets, strict=True)
        return tuple(i for i, (start, _) in pairs if start < first)

    def without_memory(self, case: Case) -> tuple[int, ...]:
        """The same prompt without the block."""
        return self._tokenizer.encode(self._render(case.question, "")).ids

    def answer(self, text: str) -> tuple[int, ...]:
        """Token ids of an answer, as the model would say it."""
        return self._tokenizer.encode(text).ids[:MAX_ANSWER_TOKENS]

    def _render(self, question: str, block: str) -> str:
        messages = [{"role": "user", "content": question}]
        if self._system:
            messages.insert(0, {"role": "system", "content": self._system})
        if block:
            messages = self._lists.frame.place(messages, block, placement=self._lists.placement)
        return self._tokenizer.render(messages)


def candidates(case: Case) -> Sequence[str]:
    """The right answer first."""
    return (case.answer, *case.wrong)
