"""What the scheduler half tells the worker half each step. Pickled: ids and integer arrays only."""

from dataclasses import dataclass, field

import numpy as np
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata

from inferscale_vllm.bank.items import NO_ADAPTER, NOBODY
from inferscale_vllm.plan import Segment


@dataclass(frozen=True)
class Load:
    """Fill slots of one request from the bank, before this step's forward.

    Attributes:
        request_id: the sidecar's name of the request.
        segments: pieces of items, in prompt order.
        slots: one int64 array [T] per KV cache group: where the tokens of all segments go; -1 =
            nowhere (a window that the group has dropped).
        block_ids: blocks of the request that the slots lie in, for reporting a failure.
    """

    request_id: str
    segments: list[Segment]
    slots: list[np.ndarray]
    block_ids: list[int]


@dataclass(frozen=True)
class Slice:
    """Tokens of a captured item that this step computes.

    Attributes:
        request_id: vLLM's id of the request that computes them.
        key: the item's key.
        offset: first of them, counted from the item's start.
        num_item_tokens: length of the whole item.
        position: prompt position of the item's first token.
        token_ids: int32, the item's tokens.
        slots: one int64 array per KV cache group: where this step writes them.
        tenant: whose item it is (`bank.tenant_of`).
        adapter: LoRA adapter that computes it (`fingerprint.adapter_of`).
    """

    request_id: str
    key: str
    offset: int
    num_item_tokens: int
    position: int
    token_ids: np.ndarray
    slots: list[np.ndarray]
    tenant: bytes = NOBODY
    adapter: bytes = NO_ADAPTER


@dataclass(frozen=True)
class Copy:
    """Put an item of the bank into these slabs of the host arena, and of the HBM arena (`()`: not
    there)."""

    key: str
    host: tuple[int, ...]
    hbm: tuple[int, ...]


@dataclass
class StepMetadata(KVConnectorMetadata):
    """One step's work; empty in most steps. `num_tokens` are computed in it, by all requests.

    `failed_block_ids` are blocks that were promised to a request and cannot be filled any more: the
    worker reports them, so that vLLM fails that one request instead of reading garbage. `lifts`
    (host arena to HBM arena) come before this step's loads, `fetches` (bank to both) after its
    forward pass.
    """

    loads: list[Load] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    failed_block_ids: list[int] = field(default_factory=list)
    num_tokens: int = 0
    fetches: list[Copy] = field(default_factory=list)
    lifts: list[Copy] = field(default_factory=list)
