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

import numpy as np
import torch

from inferscale_kernels.layout import ItemShape
from inferscale_kernels.ops.inject import RotatedKV, prepare, rotate_items_into
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import Bank, BankReader
from inferscale_vllm.capture import Capturer
from inferscale_vllm.layer_io import worst_error, write_layers
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Load, StepMetadata
from inferscale_vllm.packed import direct_fill
from inferscale_vllm.state import EngineState
from inferscale_vllm.storage import Storage
from inferscale_vllm.tiers.arenas import Arenas, Format
from inferscale_vllm.tiers.memory import Memory, memory_of
from inferscale_vllm.tiers.policy import note_name
from inferscale_vllm.tiers.staging import staging_of
from inferscale_vllm.tiers.start import open_arenas
from inferscale_vllm.writer import Writer

logger = logging.getLogger(__name__)

Pieces = dict[str, tuple[list[memoryview], torch.Tensor]]
"""By format: the item of every piece, and their segments (int64 [S, 4])."""


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
        self._rank, self._verify_writes = rank, verify_writes
        self._dtype = dtype
        self._device = layers.modules[0].kv_cache.device
        self._out = RotatedKV(torch.empty(0, 0), torch.empty(0, 0))
        self._metadata = StepMetadata()
        self._is_loaded = True
        self._failed_block_ids: set[int] = set()
        self.capturer = Capturer(layers, staging_of(self._device))
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
        for codec in self.storage.sample_codecs():
            prepare(shape, rope, dtype, codec)
        self._fill_directly = direct_fill(layers, self.capturer.writers, rope, dtype)
        self._arenas: Arenas | None = None

    def use_arenas(self, host_bytes: int, hbm_bytes: int, memory: Memory | None = None) -> None:
        """Opens arenas where they help, and notes for the scheduler what there is.

        Args:
            host_bytes, hbm_bytes: budgets; without the first there is no arena at all.
            memory: of the device; unless given, that of the caches, if it is not the CPU.
        """
        memory = memory or memory_of(self._device)
        opened = None
        if memory and host_bytes:
            form = Format(self._layers.token_shape, self._dtype, self.storage.codec)
            parts = (memory, self._layers, self.capturer.writers, self._rope, form)
            codecs = self.storage.sample_codecs()
            opened = open_arenas(*parts, codecs=codecs, host_bytes=host_bytes, hbm_bytes=hbm_bytes)
        self._state.note(note_name(self._rank), vars(opened[1]) if opened else None)
        self._arenas = opened[0] if opened else None

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
        self._lift()
        if not loads:
            return
        try:
            with self._bank.reading() as reader:
                loads = [load for load in loads if self._is_whole(load, reader)]
                rest = self._arenas.inject(loads) if self._arenas else loads
                if rest:
                    self._fill(rest, reader)
                if loads and self._verify_writes:
                    self._verify(loads, reader)
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
        pieces, slots = self._pieces(loads, reader), _slots(loads)
        if self._fill_directly and pieces.keys() == {"plain"}:
            self._fill_directly(*pieces["plain"], torch.stack(slots))
        else:
            out = self._turned(pieces, slots[0].numel())
            write_layers(self._layers, self.capturer.writers, out, slots)

    def _turned(self, pieces: Pieces, num_tokens: int) -> RotatedKV:
        """K and V of all tokens where they are needed, in the order of the loads' slots."""
        out = self._reserve(num_tokens)
        for name, (items, segments) in pieces.items():
            rotate_items_into(items, segments, self._rope, out, self.storage.codec(name))
        return out

    def _reserve(self, num_tokens: int) -> RotatedKV:
        """Output buffers; they grow and are kept, because page faults cost more than the copy."""
        if self._out.k.shape[1] < num_tokens:
            capacity = max(1024, 1 << (num_tokens - 1).bit_length())
            num_layers, _, heads, _ = self._layers.token_shape
            shape = (num_layers, capacity, heads)
            k, v = (torch.empty(*shape, width, dtype=self._dtype) for width in self._widths)
            self._out = RotatedKV(k, v)
        return RotatedKV(self._out.k[:, :num_tokens], self._out.v[:, :num_tokens])

    def _pieces(self, loads: list[Load], reader: BankReader) -> Pieces:
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

    def _verify(self, loads: list[Load], reader: BankReader) -> None:
        """Reads back what was injected, and notes how far it is from what was to be."""
        slots = _slots(loads)
        out = self._turned(self._pieces(loads, reader), slots[0].numel())
        worst = worst_error(self._layers, out, slots)
        for load in loads if worst is not None else ():
            self._state.note(f"verify:{load.request_id}", worst)

    def take_failed_block_ids(self) -> set[int]:
        """Blocks whose promise was broken since the last call."""
        failed, self._failed_block_ids = self._failed_block_ids, set()
        return failed

    def _lift(self) -> None:
        try:
            if self._arenas:
                self._arenas.lift(self._metadata.lifts)
        except Exception:  # what is not in an arena is read from the bank
            logger.exception("InferScale: the arenas are given up")
            self._arenas = None

    # -- after the forward

    def store(self) -> None:
        """Hands the items that this step completed to the writer."""
        try:
            captured = self.capturer.end()
            if captured:
                self.writer.submit(captured)
        except Exception:  # KV is derived data: losing it costs speed, not correctness
            logger.exception("captured items were not stored")

    def fetch(self) -> None:
        """Copies items from the bank to the arenas, for later steps."""
        try:
            if self._arenas and self._metadata.fetches:
                with self._bank.reading() as reader:
                    self._arenas.fetch(self._metadata.fetches, reader)
        except Exception:  # what is not in an arena is read from the bank
            logger.exception("InferScale: the arenas are given up")
            self._arenas = None


def _slots(loads: list[Load]) -> list[torch.Tensor]:
    """Slots of all tokens of the loads, int64 [T], one for each KV cache group."""
    groups = range(len(loads[0].slots))
    return [torch.from_numpy(np.concatenate([load.slots[g] for load in loads])) for g in groups]
