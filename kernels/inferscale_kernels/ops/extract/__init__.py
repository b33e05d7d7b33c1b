"""Read KV out of the engine's paged caches into stored items."""

from inferscale_kernels.ops.extract.reference import empty_items
from inferscale_kernels.ops.extract.select import extract

__all__ = ["empty_items", "extract"]
