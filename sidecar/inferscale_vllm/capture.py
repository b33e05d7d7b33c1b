"""Takes K and V out of the forward pass as they are computed, and hands whole items over for
storing.

Owns the wrapping of each layer's cache writer and the buffers of items in the making. Invariant: an
item is handed over only when all its tokens were captured, in order, by one request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from inferscale_vllm import cache_io
from inferscale_vllm.bank.items import NO_ADAPTER, NOBODY
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Slice


@dataclass
class _Partial:
    """An item in the making: KV [T, L, planes, H, D], of which the first `filled` tokens are
    there."""

    kv: torch.Tensor
    filled: int


@dataclass(frozen=True)
class Captured:
    """A whole item: `kv` is [T, L, 2, H, D], of MLA [T, L, 1, 1, C], on the CPU, contiguous.
    `tenant`: whose it is; `adapter`: the LoRA adapter that computed it."""

    key: str
    position: int
    token_ids: np.ndarray
    kv: torch.Tensor
    tenant: bytes = NOBODY
    adapter: bytes = NO_ADAPTER


class Capturer:
    """Wraps the cache writers of all layers. Costs one `if` per layer in steps without captures."""

    def __init__(self, layers: AttentionLayers) -> None:
        self._layers = layers
        self._partials: dict[tuple[str, str], _Partial] = {}
        self._slices: list[Slice] = []
        self._wanted: list[torch.Tensor] = []
        self._rows: dict[int, torch.Tensor | None] = {}
        self._step: torch.Tensor | None = None
        self._seen: set[int] = set()
        self.writers = [module.impl.do_kv_cache_update for module in layers.modules]
        for index, module in enumerate(layers.modules):
            module.impl.do_kv_cache_update = self._wrapped(index, self.writers[index])

    def _wrapped(self, index: int, original: Callable[..., None]) -> Callable[..., None]:
        module = self._layers.modules[index]

        def update(*written: Any) -> None:
            original(*written)
            if self._slices:
                self._take(index, *cache_io.captured(module, *written))

        return update

    def begin(self, slices: list[Slice]) -> None:
        """Switches capture on for this step's slices (vLLM: before the forward)."""
        self._slices = slices
        self._rows.clear()
        self._seen.clear()
        self._step = None
        self._wanted = [
            torch.from_numpy(np.concatenate([s.slots[group] for s in slices]))
            for group in range(len(slices[0].slots) if slices else 0)
        ]

    def _take(self, index: int, planes: tuple[Any, ...], slot_mapping: Any) -> None:
        group = self._layers.groups[index]
        if group not in self._rows:
            self._rows[group] = rows_of(slot_mapping, self._wanted[group])
        rows = self._rows[group]
        if rows is None:
            return
        if self._step is None:
            shape = (len(rows), *self._layers.token_shape)
            self._step = torch.empty(shape, dtype=planes[0].dtype)
        for plane, values in enumerate(planes):
            self._step[:, index, plane] = values[rows]
        self._seen.add(index)

    def end(self) -> list[Captured]:
        """Switches capture off. Returns the items that this step completed."""
        slices, step = self._slices, self._step
        self._slices, self._step = [], None
        if not slices or step is None or len(self._seen) != len(self._layers.names):
            return []
        done: list[Captured] = []
        start = 0
        for piece in slices:
            count = len(piece.slots[0])
            kv = self._extend(piece, step[start : start + count])
            start += count
            if kv is not None:
                done.append(
                    Captured(
                        piece.key, piece.position, piece.token_ids, kv, piece.tenant, piece.adapter
                    )
                )
        return done

    def _extend(self, piece: Slice, kv: torch.Tensor) -> torch.Tensor | None:
        """Adds captured tokens to an item; the whole KV if that completes it."""
        name = (piece.request_id, piece.key)
        if piece.offset == 0:
            shape = (piece.num_item_tokens, *self._layers.token_shape)
            self._partials[name] = _Partial(torch.empty(shape, dtype=kv.dtype), 0)
        partial = self._partials.get(name)
        if partial is None or partial.filled != piece.offset:
            # The tokens before were not computed in this request (prefix hit): nothing to keep.
            self._partials.pop(name, None)
            return None
        partial.kv[piece.offset : piece.offset + len(kv)] = kv
        partial.filled += len(kv)
        if partial.filled < piece.num_item_tokens:
            return None
        del self._partials[name]
        return partial.kv

    def forget(self, request_ids: set[str]) -> None:
        """Drops unfinished items of requests that are gone."""
        for name in [n for n in self._partials if n[0] in request_ids]:
            del self._partials[name]


def rows_of(slot_mapping: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor | None:
    """Rows of this step's batch that write the wanted slots, int64 [len(wanted)]; None if one is
    missing.

    Matching by slot, not by position in the batch, because the model runner reorders requests.
    Nothing is wanted of slot -1, which is padding on one side and a dropped window on the other.
    """
    if bool((wanted < 0).any()):
        return None
    present = slot_mapping.flatten().cpu()
    order = torch.argsort(present)
    at = torch.searchsorted(present[order], wanted)
    at = at.clamp(max=len(order) - 1)
    rows = order[at]
    return rows if bool((present[rows] == wanted).all()) else None
