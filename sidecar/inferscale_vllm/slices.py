"""Which pieces of captured items a step computes, and where in the cache they lie."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inferscale_vllm.metadata import Slice
from inferscale_vllm.plan import Plan, slots_of


def slots_in_groups(
    block_ids: Sequence[Sequence[int]], block_sizes: Sequence[int], start: int, end: int
) -> list[np.ndarray]:
    """Slots of a request's tokens [start, end), by KV cache group (`plan.slots_of`)."""
    groups = zip(block_ids, block_sizes, strict=True)
    return [slots_of(ids, size, start, end) for ids, size in groups]


def slices(
    plan: Plan,
    request: Any,
    num_tokens: int,
    block_ids: Sequence[Sequence[int]],
    block_sizes: Sequence[int],
) -> list[Slice]:
    """Pieces of captured items among the tokens that a step computes.

    Args:
        plan: with captures.
        request: vLLM's scheduler-side `Request`.
        num_tokens: so many of its tokens are computed.
        block_ids: its block tables, by KV cache group.
        block_sizes: tokens per block of each group.
    """
    computed = request.num_computed_tokens
    found = []
    for capture in plan.captures:
        low = max(capture.start, computed)
        high = min(capture.end, computed + num_tokens)
        if low >= high:
            continue
        ids = request.prompt_token_ids[capture.start : capture.end]
        found.append(
            Slice(
                request_id=request.request_id,
                key=capture.key,
                offset=low - capture.start,
                num_item_tokens=capture.end - capture.start,
                position=capture.start,
                token_ids=np.asarray(ids, np.int32),
                slots=slots_in_groups(block_ids, block_sizes, low, high),
                tenant=plan.tenant,
                adapter=plan.adapter,
            )
        )
    return found
