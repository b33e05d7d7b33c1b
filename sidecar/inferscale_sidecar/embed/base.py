"""The port of an embedder: texts in, unit vectors out."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """`name` and `dim` identify it: vectors of two embedders must never be compared."""

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """L2-normalised float32 vectors `[len(texts), dim]`, in order. Never blocks the loop."""

    async def close(self) -> None:
        """Free the model and its threads."""
