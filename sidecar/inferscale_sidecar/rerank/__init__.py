"""Ordering what a search found by reading it beside the query. `Reranker` is the port."""

from inferscale_sidecar.rerank.base import Reranker
from inferscale_sidecar.rerank.cross_encoder import CrossEncoderReranker

__all__ = ["CrossEncoderReranker", "Reranker"]
