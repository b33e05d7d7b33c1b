"""The compiled loop that fills the packed pages of vLLM's CPU attention (numba).

Owns: the order in which bytes are visited. Does not own: addresses and threads (pages.py), vector
arithmetic (simd.py).
Invariant: addresses and sizes are in bytes, and were checked by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from inferscale_kernels.ops.inject.loop import RowGeometry, turn_row_step
from inferscale_kernels.ops.inject.simd import copy_bytes, copy_half, transpose_halves

TILE_TOKENS = 64
"""Target tokens done layer by layer: their K of a layer waits, turned, in L1."""
SIDE = 16
"""Side of the squares that are transposed in registers."""
_Step = Callable[..., None]


@lru_cache(maxsize=16)
def page_loop(geometry: RowGeometry, block_size: int) -> _Step:
    """Compile the loop for one model.

    Returns:
        `loop(first, last, sources, starts, angles, slots, pages)`: all layers of the target tokens
        `first` to `last`. `sources` int64 [T]: address of a token; `starts` int64 [T]: address of
        its cos, with sin behind it, 0 if it stays where it was built; `angles` int64 [L]: offset of
        a layer's cos, negative without RoPE; `slots` int64 [G, T]; `pages` int64 [L, 4]: address,
        bytes from block to block and from head to head, row of `slots`.
    """
    rows, columns = _rows(geometry, block_size), _columns(geometry, block_size)
    row_bytes = geometry.heads * geometry.head_bytes

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def loop(
        first: int, last: int, sources: Any, starts: Any, angles: Any, slots: Any, pages: Any
    ) -> None:
        turned = np.empty(TILE_TOKENS * row_bytes, np.uint8)
        keys = turned.ctypes.data
        for tile in range(first, last, TILE_TOKENS):
            end = min(tile + TILE_TOKENS, last)
            for layer in range(len(angles)):
                page, offset = pages[layer], 2 * row_bytes * layer
                where = slots[page[3], tile:end]
                rows(keys, sources[tile:end], offset, starts[tile:end], angles[layer], where, page)
                columns(keys, where, page)

    compiled: _Step = loop
    return compiled


def _rows(geometry: RowGeometry, block_size: int) -> _Step:
    """One layer of a tile: K turned into a buffer of rows, V into its pages."""
    turn_row = turn_row_step(geometry)
    heads, head_bytes = geometry.heads, geometry.head_bytes
    row_bytes, values_at = heads * head_bytes, block_size * head_bytes

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def rows(
        keys: int, sources: Any, offset: int, starts: Any, angle: int, slots: Any, page: Any
    ) -> None:
        for i in range(len(slots)):
            source, key, slot = sources[i] + offset, keys + i * row_bytes, slots[i]
            if starts[i] != 0 and angle >= 0:
                turn_row(key, source, starts[i] + angle)
            else:
                copy_bytes(key, source, row_bytes)
            if slot >= 0:
                block, row = slot // block_size, slot % block_size
                value = page[0] + block * page[1] + values_at + row * head_bytes
                for head in range(heads):
                    at = source + row_bytes + head * head_bytes
                    copy_bytes(value + head * page[2], at, head_bytes)

    compiled: _Step = rows
    return compiled


def _columns(geometry: RowGeometry, block_size: int) -> _Step:
    """One layer of a tile: rows of K into columns of pages, run by run of neighbouring slots."""
    head_columns = _head_columns(geometry, block_size)
    heads, head_bytes = geometry.heads, geometry.head_bytes
    row_bytes = heads * head_bytes

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def columns(keys: int, slots: Any, page: Any) -> None:
        i = 0
        while i < len(slots):
            slot, run = slots[i], 1
            if slot >= 0:
                room = min(len(slots) - i, block_size - slot % block_size)
                while run < room and slots[i + run] == slot + run:
                    run += 1
                to = page[0] + slot // block_size * page[1] + 2 * (slot % block_size)
                for head in range(heads):
                    at = keys + i * row_bytes + head * head_bytes
                    head_columns(to + head * page[2], at, run)
            i += run

    compiled: _Step = columns
    return compiled


def _head_columns(geometry: RowGeometry, block_size: int) -> _Step:
    """`step(page, rows, count)`: one head of `count` rows of K into as many columns of a page."""
    square = transpose_halves(SIDE)
    row_gap, column_gap = geometry.heads * geometry.head_bytes, 2 * block_size
    channels = geometry.head_bytes // 2
    whole = channels - channels % SIDE

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def head_columns(page: int, rows: int, count: int) -> None:
        squares = count - count % SIDE
        for at in range(0, squares, SIDE):
            for c in range(0, whole, SIDE):
                to, source = page + c * column_gap + 2 * at, rows + at * row_gap + 2 * c
                square(to, column_gap, source, row_gap)
            for c in range(whole, channels):
                for i in range(at, at + SIDE):
                    copy_half(page + c * column_gap + 2 * i, rows + i * row_gap + 2 * c)
        for i in range(squares, count):
            for c in range(channels):
                copy_half(page + c * column_gap + 2 * i, rows + i * row_gap + 2 * c)

    compiled: _Step = head_columns
    return compiled
