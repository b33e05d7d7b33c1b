"""The worker's half: fills cache slots from the bank before the forward, stores captured items
after it.

Owns the data path: items are read where they lie in the bank's memory map, turned to their new
positions for all layers at once, and written straight into the backend's pages (`packed.py`), or
handed to its own writer layer by layer. Contract: vLLM `KVConnectorBase_V1`, worker side.
Invariant: a slot that was promised is filled with the right item, or its block is reported as
failed.
"""

import logging
from functools import partial
from typing import get_args

import numpy as np
import torch

from inferscale_kernels.layout import ItemShape
from inferscale_kernels.ops.inject import RotatedKV, prepare, rotate_items_into
from inferscale_kernels.ops.quantize import FormatName
from inferscale_kernels.rope import RopeTable
from inferscale_vllm import cache_io
from inferscale_vllm.bank import Bank, BankReader
from inferscale_vllm.capture import Capturer
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Load, StepMetadata
from inferscale_vllm.packed import direct_fill
from inferscale_vllm.state import EngineState
from inferscale_vllm.storage import Storage
from inferscale_vllm.writer import Writer

logger = logging.getLogger(__name__)


class Worker:
    """One rank's data path.

    Args:
        layers: attention layers of the loaded model, caches allocated.
        rope: their rotary geometry.
        bank: this rank's bank.
        state: where measurements go.
        dtype: model dtype, that of items which are not compressed.
        verify_writes: read every injected token back and note the largest difference.
        rank: of this worker among those of the engine.
        store_dtype: how new items are stored (`settings.STORE_DTYPES`).
    """

    def __init__(
        self,
        *,
        layers: AttentionLayers,
        rope: RopeTable,
        bank: Bank,
        state: EngineState,
        dtype: torch.dtype,
        verify_writes: bool,
        rank: int = 0,
        store_dtype: str = "bf16",
    ) -> None:
        self._layers = layers
        self._rope = rope
        self._bank = bank
        self._state = state
        self._verify_writes = verify_writes
        self._dtype = dtype
        self._device = layers.modules[0].kv_cache.device
        self._out = RotatedKV(torch.empty(0, 0), torch.empty(0, 0))
        self._metadata = StepMetadata()
        self._is_loaded = True
        self._failed_block_ids: set[int] = set()
        self.capturer = Capturer(layers)
        self.storage = Storage(
            bank,
            rope,
            layers.token_shape,
            wanted=store_dtype,
            tell=partial(state.note, f"storage:{rank}"),
        )
        self.writer = Writer(bank, state, self.storage.pack, rank=rank)
        num_layers, planes, heads, size = layers.token_shape
        self._widths = (size, size if planes == 2 else 0)
        shape = ItemShape(0, num_layers, heads, size, planes == 2)
        prepare(shape, rope, dtype)
        if self.storage.may_compress:
            for name in get_args(FormatName):
                prepare(shape, rope, dtype, self.storage.sample_codec(name))
        self._fill_directly = direct_fill(layers, self.capturer.writers, rope, dtype)

    @property
    def token_bytes(self) -> int:
        """KV bytes of one token over all layers of this rank."""
        return int(np.prod(self._layers.token_shape)) * self._dtype.itemsize

    # -- loading

    def bind(self, metadata: StepMetadata) -> None:
        self._metadata = metadata
        self._is_loaded = False
        self._failed_block_ids.update(metadata.failed_block_ids)
        self.capturer.begin(metadata.slices)

    def load(self) -> None:
        """Fills all slots that this step's requests were promised, all requests and layers
        together."""
        if self._is_loaded:
            return
        self._is_loaded = True
        loads = [load for load in self._metadata.loads if load.segments]
        if not loads:
            return
        try:
            with self._bank.reading() as reader:
                loads = [load for load in loads if self._is_whole(load, reader)]
                if loads:
                    self._fill(loads, reader)
        except Exception:  # a broken promise fails these requests, never the engine
            logger.exception("injection failed; failing the requests that were promised KV")
            for load in loads:
                self._failed_block_ids.update(load.block_ids)

    def _is_whole(self, load: Load, reader: BankReader) -> bool:
        """Whether the bank has all of a request's items; if not, only that request fails."""
        missing = [piece.key for piece in load.segments if reader.kv(piece.key) is None]
        if missing:
            logger.error("items %s left the bank after they were promised", missing)
            self._failed_block_ids.update(load.block_ids)
        return not missing

    def _fill(self, loads: list[Load], reader: BankReader) -> None:
        pieces = self._pieces(loads, reader)
        slots = [
            torch.from_numpy(np.concatenate([load.slots[g] for load in loads]))
            for g in range(len(loads[0].slots))
        ]
        direct = self._fill_directly if pieces.keys() == {"plain"} else None
        if direct:
            direct(*pieces["plain"], torch.stack(slots))
        if not direct or self._verify_writes:
            out = self._reserve(slots[0].numel())
            for name, (items, segments) in pieces.items():
                rotate_items_into(items, segments, self._rope, out, self.storage.codec(name))
            if not direct:
                self._write(out, slots)
            if self._verify_writes:
                self._verify(loads, out, slots)

    def _reserve(self, num_tokens: int) -> RotatedKV:
        """Output buffers; they grow and are kept, because page faults cost more than the copy."""
        if self._out.k.shape[1] < num_tokens:
            capacity = max(1024, 1 << (num_tokens - 1).bit_length())
            num_layers, _, heads, _ = self._layers.token_shape
            shape = (num_layers, capacity, heads)
            k, v = (torch.empty(*shape, width, dtype=self._dtype) for width in self._widths)
            self._out = RotatedKV(k, v)
        return RotatedKV(self._out.k[:, :num_tokens], self._out.v[:, :num_tokens])

    def _pieces(
        self, loads: list[Load], reader: BankReader
    ) -> dict[str, tuple[list[memoryview], torch.Tensor]]:
        """By how they are stored: every piece's item, and the segments; their targets are in the
        order of the loads' slots."""
        rows: dict[str, list[tuple[int, int, int, int]]] = {}
        items: dict[str, list[memoryview]] = {}
        at = 0
        for piece in (piece for load in loads for piece in load.segments):
            kv, name = reader.kv(piece.key), reader.codec(piece.key)
            assert kv is not None
            items.setdefault(name, []).append(kv)
            rows.setdefault(name, []).append((piece.source, piece.num_tokens, piece.shift, at))
            at += piece.num_tokens
        return {name: (items[name], torch.tensor(rows[name], dtype=torch.int64)) for name in items}

    def _write(self, out: RotatedKV, slots: list[torch.Tensor]) -> None:
        kept = [_kept(s) for s in slots]
        for index, module in enumerate(self._layers.modules):
            group = self._layers.groups[index]
            k, v, where = _held(out, index, slots[group], kept[group])
            k, v, where = (t.to(self._device) for t in (k, v, where))
            if len(where):
                cache_io.write(module, self.capturer.writers[index], k, v, where)

    def _verify(self, loads: list[Load], out: RotatedKV, slots: list[torch.Tensor]) -> None:
        worst = 0.0
        for index, module in enumerate(self._layers.modules):
            reader = cache_io.reader_for(module)
            if reader is None:
                return
            group = self._layers.groups[index]
            wanted_k, wanted_v, where = _held(out, index, slots[group], _kept(slots[group]))
            k, v = reader(module.kv_cache, where, self._layers.head_size)
            for got, wanted in ((k, wanted_k), (v, wanted_v)):
                if got.numel():
                    worst = max(worst, (got.float() - wanted.float()).abs().max().item())
        for load in loads:
            self._state.note(f"verify:{load.request_id}", worst)

    def take_failed_block_ids(self) -> set[int]:
        """Blocks whose promise was broken since the last call."""
        failed, self._failed_block_ids = self._failed_block_ids, set()
        return failed

    # -- storing

    def store(self) -> None:
        """Hands the items that this step completed to the writer."""
        try:
            captured = self.capturer.end()
            if captured:
                self.writer.submit(captured)
        except Exception:  # KV is derived data: losing it costs speed, not correctness
            logger.exception("captured items were not stored")


def _kept(slots: torch.Tensor) -> torch.Tensor | None:
    """Rows whose slot exists, int64; None if all do. A window group has let go of the others."""
    exists = slots >= 0
    return None if bool(exists.all()) else exists.nonzero().flatten()


def _held(
    out: RotatedKV, index: int, slots: torch.Tensor, rows: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """K, V and slots of one layer, without the rows that its group has let go of."""
    k, v = out.k[index], out.v[index]
    return (k, v, slots) if rows is None else (k[rows], v[rows], slots[rows])
