"""Compressed items: about half the bytes (int8) or two fifths (k8v4)."""

from inferscale_kernels.ops.quantize.reference import FormatName, ItemCodec, calibrate

__all__ = ["FormatName", "ItemCodec", "calibrate"]
