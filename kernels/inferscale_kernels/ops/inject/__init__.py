"""Put stored KV into the engine: gather, turn K to its new position, scatter."""

from inferscale_kernels.ops.inject.reference import (
    RotatedKV,
    empty_kv,
    inject,
    rotate,
    rotate_into,
)

__all__ = ["RotatedKV", "empty_kv", "inject", "rotate", "rotate_into"]
