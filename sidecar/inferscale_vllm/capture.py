"""Takes K and V out of the forward pass as they are computed, and hands whole items over for
storing.

Owns the wrapping of each layer's cache writer and the buffers of items in the making. Invariants:
an item is handed over only when all its tokens were captured, in order, by one request; no step
waits for the device (`tiers/staging.py`), so on CUDA an item is there only when `Captured.is_whole`
says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from inferscale_vllm import cache_io
from inferscale_vllm.bank.items import NO_ADAPTER, NOBODY
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Slice
from inferscale_vllm.tiers.staging import Arrival, CpuStaging, Staging


@dataclass
class _Partial:
    """An item in the making: KV [T, L, planes, H, D], of which the first `filled` tokens are
    there."""

    kv: torch.Tensor
    filled: int
    arrivals: list[Arrival]


@dataclass(frozen=True)
class Captured:
    """A whole item: `kv` is [T, L, 2, H, D], of MLA [T, L, 1, 1, C], on the CPU, contiguous.
    `tenant`: whose it is; `adapter`: the LoRA adapter that computed it; `arrivals`: what is to be
    waited for before `kv` is read."""

    key: str
    position: int
    token_ids: np.ndarray
    kv: torch.Tensor
    tenant: bytes = NOBODY
    adapter: bytes = NO_ADAPTER
    arrivals: Sequence[Arrival] = ()

    def is_whole(self) -> bool:
        """Waits until all of `kv` is there; False if a step did not compute what was expected."""
        return all(arrival.is_whole() for arrival in self.arrivals)


class Capturer:
    """Wraps the cache writers of all layers. Costs one `if` per layer in steps without captures.

    Args:
        layers: of the loaded model.
        staging: how rows get to the host; unless given, they are computed there.
    """

    def __init__(self, layers: AttentionLayers, staging: Staging | None = None) -> None:
        self._layers = layers
        self._staging = staging or CpuStaging()
        self._partials: dict[tuple[str, str], _Partial] = {}
        self._slices: list[Slice] = []
        self._wanted: list[torch.Tensor] = []
        self._rows: dict[int, torch.Tensor] = {}
        self._matches: list[torch.Tensor] = []
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
        self._rows.clear()
        self._matches.clear()
        self._seen.clear()
        self._step = None
        groups = range(len(slices[0].slots) if slices else 0)
        wanted = [np.concatenate([s.slots[group] for s in slices]) for group in groups]
        # Nothing is wanted of slot -1: padding on one side, a dropped window on the other.
        self._slices = [] if any((slots < 0).any() for slots in wanted) else slices
        self._wanted = [torch.from_numpy(slots) for slots in wanted]

    def _take(self, index: int, planes: tuple[Any, ...], slot_mapping: Any) -> None:
        group = self._layers.groups[index]
        if group not in self._rows:
            wanted = self._staging.beside(self._wanted[group])
            self._rows[group], is_match = rows_of(slot_mapping, wanted)
            self._matches.append(is_match)
        rows = self._rows[group]
        if self._step is None:
            shape = (len(rows), *self._layers.token_shape)
            self._step = self._staging.step(shape, planes[0].dtype)
        for plane, values in enumerate(planes):
            self._step[:, index, plane] = values[rows]
        self._seen.add(index)

    def end(self) -> list[Captured]:
        """Switches capture off. Returns the items that this step completed."""
        slices, step = self._slices, self._step
        self._slices, self._step = [], None
        if not slices or step is None or len(self._seen) != len(self._layers.names):
            return []
        if self._staging.lacks(self._matches):
            return []
        start, parts = 0, []
        for piece in slices:
            count = len(piece.slots[0])
            partial = self._partial(piece, step.dtype)
            if partial is not None:
                target = partial.kv[piece.offset : piece.offset + count]
                parts.append((piece, partial, target, step[start : start + count]))
            start += count
        arrival = self._staging.send([part[2:] for part in parts], self._matches)
        return [
            whole
            for piece, partial, target, _ in parts
            if (whole := self._extend(piece, partial, len(target), arrival)) is not None
        ]

    def _partial(self, piece: Slice, dtype: torch.dtype) -> _Partial | None:
        """The item that a slice goes on with; None if the tokens before it were not captured."""
        name = (piece.request_id, piece.key)
        if piece.offset == 0:
            shape = (piece.num_item_tokens, *self._layers.token_shape)
            self._partials[name] = _Partial(self._staging.item(shape, dtype), 0, [])
        partial = self._partials.get(name)
        if partial is None or partial.filled != piece.offset:
            # They were not computed in this request (prefix hit): nothing to keep.
            self._partials.pop(name, None)
            return None
        return partial

    def _extend(
        self, piece: Slice, partial: _Partial, count: int, arrival: Arrival
    ) -> Captured | None:
        """Notes that so many more tokens of an item are on their way; the item if it is whole."""
        partial.filled += count
        partial.arrivals.append(arrival)
        if partial.filled < piece.num_item_tokens:
            return None
        del self._partials[(piece.request_id, piece.key)]
        return Captured(
            piece.key,
            piece.position,
            piece.token_ids,
            partial.kv,
            piece.tenant,
            piece.adapter,
            tuple(partial.arrivals),
        )

    def forget(self, request_ids: set[str]) -> None:
        """Drops unfinished items of requests that are gone."""
        for name in [n for n in self._partials if n[0] in request_ids]:
            del self._partials[name]


def rows_of(slot_mapping: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of this step's batch that write the wanted slots, int64 [len(wanted)], and whether every
    slot is written, bool []. Waits for nothing: both are where the slot mapping is.

    Matching by slot, not by position in the batch, because the model runner reorders requests.
    """
    present = slot_mapping.flatten()
    order = torch.argsort(present)
    at = torch.searchsorted(present[order], wanted)
    rows = order[at.clamp(max=len(order) - 1)]
    matches = present[rows] == wanted
    return torch.where(matches, rows, 0), matches.all()  # a row of padding may have no values
