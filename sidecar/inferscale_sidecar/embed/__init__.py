"""Text to vectors. `Embedder` is the port."""

from inferscale_sidecar.embed.base import Embedder
from inferscale_sidecar.embed.sentence_transformer import (
    DEFAULT_MODEL,
    SentenceTransformerEmbedder,
)

__all__ = ["DEFAULT_MODEL", "Embedder", "SentenceTransformerEmbedder"]
