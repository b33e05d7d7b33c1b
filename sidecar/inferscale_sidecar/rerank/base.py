"""The port of a reranker: a query and texts in, how well each answers it out."""

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Scores of one reranker can be compared with each other, and with nothing else."""

    @property
    def name(self) -> str: ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite number for each text, in order; higher answers the query better.

        But for rounding, a text's score does not depend on the others. Never blocks the loop.
        """

    async def close(self) -> None:
        """Free the model and its threads."""
