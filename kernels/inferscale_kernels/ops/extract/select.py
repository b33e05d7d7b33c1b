"""Which implementation of extract serves a call.

Owns: the choice. Does not own: any of the implementations.
Invariant: the choice changes time, never bits.
"""

from __future__ import annotations

import importlib.util

from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.extract import reference

HAS_TRITON = importlib.util.find_spec("triton") is not None
"""Triton comes with torch for CUDA."""


def extract(caches: CacheTable, slots: Tensor, out: Tensor) -> Tensor:
    """`reference.extract`: on CUDA as one launch, which does not wait for the device."""
    if caches.views[0].device.type != "cuda" or not HAS_TRITON:
        return reference.extract(caches, slots, out)
    from inferscale_kernels.ops.extract import triton

    return triton.extract(caches, slots, out)
