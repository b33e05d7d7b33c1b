"""The table that says which stored tokens go where: one row per contiguous piece of an item.

Owns: the column order, validation, and merging of neighbours into long runs.
Does not own: planning (the connector decides what lands where).
Invariant: targets never overlap, so the order in which rows are executed cannot matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Segment(NamedTuple):
    """`num_tokens` tokens from staging row `source` to slot row `target`, shifted by `delta`."""

    source: int
    num_tokens: int
    delta: int
    target: int


class Run(NamedTuple):
    """Neighbouring segments that are contiguous on both sides, and all shifted or all not.

    `first` and `last` bound the rows of the table sorted by target (half open).
    """

    source: int
    num_tokens: int
    target: int
    shifted: bool
    first: int
    last: int


def segment_table(segments: Iterable[Segment | tuple[int, int, int, int]]) -> Tensor:
    """Pack segments into the int64 [S, 4] table that every op takes."""
    rows = [tuple(segment) for segment in segments]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), 4)


def check_segments(segments: Tensor, staged_tokens: int, target_tokens: int) -> Tensor:
    """Validate a table and return it on the CPU, sorted by target.

    Args:
        segments: int64 [S, 4].
        staged_tokens: rows of the staging buffer.
        target_tokens: rows of the slot list.

    Raises:
        ValueError: wrong shape or dtype, out of bounds, or targets that overlap.
    """
    if segments.dim() != 2 or segments.shape[1] != 4 or segments.dtype != torch.int64:
        raise ValueError(
            f"segments are {segments.dtype} {tuple(segments.shape)}: "
            "give int64 [S, 4] (source, num_tokens, delta, target)"
        )
    # In numpy: torch would wake its threads for a table of a few rows.
    table = segments.cpu().numpy()
    table = table[np.argsort(table[:, 3], kind="stable")]
    source, count, _, target = table.T
    if ((source < 0) | (count <= 0) | (source + count > staged_tokens)).any():
        raise ValueError(
            f"a segment reads outside the {staged_tokens} staged tokens or is empty: "
            "drop empty segments and give source rows of this staging buffer"
        )
    if ((target < 0) | (target + count > target_tokens)).any():
        raise ValueError(
            f"a segment writes outside the {target_tokens} target rows: give one slot per token"
        )
    if (target[:-1] + count[:-1] > target[1:]).any():
        raise ValueError("two segments write the same target row: split or drop one of them")
    return torch.from_numpy(np.ascontiguousarray(table))


def target_tokens(segments: Tensor) -> int:
    """Rows of the shortest slot list that holds every segment's target."""
    if segments.shape[0] == 0:
        return 0
    return int((segments[:, 3] + segments[:, 1]).max())


def runs(table: Tensor) -> Iterator[Run]:
    """Merge a sorted table's neighbours, so that copies are long and few."""
    rows: list[list[int]] = table.tolist()
    run: Run | None = None
    for i, (source, count, delta, target) in enumerate(rows):
        follows = (
            run is not None
            and run.source + run.num_tokens == source
            and run.target + run.num_tokens == target
            and run.shifted == (delta != 0)
        )
        if run is not None and follows:
            run = run._replace(num_tokens=run.num_tokens + count, last=i + 1)
            continue
        if run is not None:
            yield run
        run = Run(source, count, target, delta != 0, i, i + 1)
    if run is not None:
        yield run
