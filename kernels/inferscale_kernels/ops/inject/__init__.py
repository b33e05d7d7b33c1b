"""Put stored KV into the engine: gather, turn K to its new position, scatter."""

from inferscale_kernels.ops.inject.contract import RotatedKV, empty_kv, empty_of
from inferscale_kernels.ops.inject.select import (
    HAS_COMPILED_LOOP,
    inject,
    prepare,
    rotate,
    rotate_into,
    rotate_items_into,
)

__all__ = [
    "HAS_COMPILED_LOOP",
    "RotatedKV",
    "empty_kv",
    "empty_of",
    "inject",
    "prepare",
    "rotate",
    "rotate_into",
    "rotate_items_into",
]
