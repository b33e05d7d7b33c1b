"""Exact vector search in memory. `VectorIndex` is the port, `flat` the truth, FAISS the default."""

from inferscale_sidecar.index.base import IndexFactory, VectorIndex
from inferscale_sidecar.index.faiss_flat import FaissFlatIndex
from inferscale_sidecar.index.flat import FlatIndex

__all__ = ["FaissFlatIndex", "FlatIndex", "IndexFactory", "VectorIndex"]
