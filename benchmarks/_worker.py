"""A connector worker with layers and caches of the served model's shapes, without the model.

Owns what `_copy` times. Imports vLLM, so it is imported late.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks._copy import SPARE_BLOCKS, BankFile, Job
from benchmarks._output import note
from vllm.config import set_current_vllm_config
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl, _get_attn_isa

from inferscale_kernels.rope import RopeTable
from inferscale_vllm import compat
from inferscale_vllm.bank import open_bank
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Load, StepMetadata
from inferscale_vllm.plan import Span, find_chain, item_spans, prefix_key, segments
from inferscale_vllm.state import EngineState
from inferscale_vllm.worker import Worker


class _Layer:
    """What the worker and the backend's writer read of vLLM's `Attention`."""

    _k_scale_float = _v_scale_float = 1.0

    def __init__(self, impl: Any, isa: str, cache: torch.Tensor) -> None:
        self.impl, self.isa, self.kv_cache, self.dtype = impl, isa, cache, cache.dtype
        self.num_kv_heads, self.head_size = cache.shape[1], cache.shape[3] // 2


class Bench:
    """Makes timed calls.

    Args:
        file: the bank, not written to.
        scratch: an empty folder.
    """

    def __init__(self, file: BankFile, scratch: Path) -> None:
        self._bank = open_bank(file.path, limit_bytes=file.limit_bytes)
        self._state = EngineState(scratch)
        self._block_size = file.block_size
        arguments = EngineArgs(model=file.model, enforce_eager=True, block_size=file.block_size)
        self._config = arguments.create_engine_config()

    def prepared(self, job: Job, rng: random.Random) -> tuple[Callable[[], None], Any]:
        """The copy of a job as a call, checked; and a memcpy of as many bytes."""
        spans = self._spans(job)
        end = spans[-1].end
        num_blocks = -(-end // self._block_size)
        blocks = rng.sample(range(1, num_blocks + SPARE_BLOCKS), num_blocks)
        tokens = np.arange(end, dtype=np.int64)
        pages_of = np.asarray(blocks, np.int64)[tokens // self._block_size]
        slots = pages_of * self._block_size + tokens % self._block_size
        load = Load("bench", segments(spans, 0, end), [slots], blocks)
        pages = num_blocks + SPARE_BLOCKS
        self._call(self._worker(pages, verify=True), load)()
        error = self._state.get_note("verify:bench")
        if error is None:
            note("this machine's cache layout cannot be read back: the copy is timed unchecked")
        elif error > 0:
            raise SystemExit(f"the copy is not what the cache holds (off by {error}): not timed")
        worker = self._worker(pages, verify=False)
        source = np.ones(end * worker.token_bytes, np.uint8)
        target = np.zeros_like(source)
        return self._call(worker, load), lambda: np.copyto(target, source)

    def _spans(self, job: Job) -> tuple[Span, ...]:
        """As the connector plans: the head of the prompt, then the items."""
        headers = [header for header in self._bank.headers(job.keys) if header is not None]
        prompt = np.asarray(job.prompt, np.int32)
        start, count = find_chain(prompt, [header.token_ids for header in headers])
        if count != len(job.keys):
            raise SystemExit(f"{count} of {len(job.keys)} items stand in the prompt: not timed")
        key = prefix_key(job.salt, prompt[:start], 0)
        if self._bank.headers([key])[0] is None:
            raise SystemExit("the head of the prompt is not in the bank: not timed")
        return (Span(0, start, key, 0), *item_spans(start, job.keys, headers))

    def _call(self, worker: Worker, load: Load) -> Callable[[], None]:
        metadata = StepMetadata(loads=[load])

        def call() -> None:
            worker.bind(metadata)
            worker.load()
            if worker.take_failed_block_ids():
                raise SystemExit("the copy failed: not timed")

        return call

    def _worker(self, num_blocks: int, *, verify: bool) -> Worker:
        layers = self._layers(num_blocks)
        return Worker(
            layers=layers,
            rope=self._rope(len(layers.names)),
            bank=self._bank,
            state=self._state,
            dtype=self._config.model_config.dtype,
            verify_writes=verify,
        )

    def _layers(self, num_blocks: int) -> AttentionLayers:
        model, parallel = self._config.model_config, self._config.parallel_config
        heads, head_dim = model.get_num_kv_heads(parallel), model.get_head_size()
        count, dtype = model.get_num_layers(parallel), model.dtype
        isa = _get_attn_isa(dtype, self._block_size, head_dim)
        shape = (num_blocks, heads, self._block_size, 2 * head_dim)
        queries = model.get_num_attention_heads(parallel)
        modules = []
        with set_current_vllm_config(self._config):
            for _ in range(count):
                impl = CPUAttentionBackendImpl(
                    queries, head_dim, head_dim**-0.5, heads, None, None, "auto"
                )
                modules.append(_Layer(impl, isa, torch.zeros(shape, dtype=dtype)))
        names = [f"layers.{index}" for index in range(count)]
        return AttentionLayers(names, modules, [0] * count)

    def _rope(self, num_layers: int) -> RopeTable:
        model = self._config.model_config
        text = model.hf_text_config
        with set_current_vllm_config(self._config):
            rotary = get_rope(
                model.get_head_size(),
                max_position=text.max_position_embeddings,
                rope_parameters=text.rope_parameters,
            )
        frequencies = compat.inverse_frequencies(rotary)
        return RopeTable.uniform(frequencies, num_layers, is_neox=rotary.is_neox_style)
