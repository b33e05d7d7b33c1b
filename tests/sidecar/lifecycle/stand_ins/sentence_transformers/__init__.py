"""Stands in for sentence-transformers in a process under test: vectors from a hash, no torch."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np


class SentenceTransformer:
    def __init__(self, model: str, *, device: str) -> None:
        self.device = device

    def get_embedding_dimension(self) -> int:
        return 32

    def encode(self, texts: Sequence[str], **_: Any) -> Any:
        rows = [list(hashlib.sha256(text.encode()).digest()) for text in texts]
        vectors = np.asarray(rows, dtype=np.float32) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
