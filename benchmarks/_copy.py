"""The injection's copy alone: the connector's own worker on the same bank, without an engine.

What is timed is `inferscale_vllm.worker.Worker.load`, the very call that the engine makes before a
forward pass: read items in the bank's memory map, turn K of all layers to the new positions, hand
both to the CPU backend's own cache writer, layer by layer. The caches and layers around it are made
here, with the shapes of the served model. Beside it, in turns: one memcpy of as many bytes.

CPU only. Checked before it is timed: every value is read back from the cache and compared.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._arms import EngineArm
from benchmarks._items import Stored
from benchmarks._sidecar import Sidecar

from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.compose.order import suffix_items
from inferscale_sidecar.engine.command import detect_device

SPARE_BLOCKS = 8


@dataclass(frozen=True)
class BankFile:
    """Where the items lie, and what the engine says of its model."""

    path: Path
    limit_bytes: int
    model: str
    block_size: int

    @classmethod
    def of(cls, sidecar: Sidecar) -> BankFile | None:
        """Of a running sidecar; None if its engine is not on the CPU."""
        if detect_device() != "cpu":
            return None
        status = sidecar.engine_status()
        folder = sidecar.bank_dir / str(status["fingerprint"])[:32] / "rank0"
        limit = int(status["bank"]["limit_bytes"])
        return cls(folder, limit, str(status["model"]), int(status["block_size"]))


@dataclass(frozen=True)
class Job:
    """What one request makes the worker copy: the keys of its items, and its prompt's ids."""

    items: int
    keys: tuple[str, ...]
    prompt: tuple[int, ...]
    salt: str

    @classmethod
    def of(cls, arm: EngineArm, stored: Stored, items: int) -> Job:
        """A random composition of so many items."""
        drawn = arm.draw(items)
        head = drawn[: items - suffix_items(items)]
        keys = tuple(item.key for item in head)
        return cls(items, keys, tuple(arm.prompt_ids(drawn)), tenant_tag(stored.tenant))


def measure(bank: BankFile, jobs: Sequence[Job], *, repeats: int) -> dict[int, tuple[float, float]]:
    """Items → median milliseconds of the copy, and of a memcpy of the same bytes."""
    os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    from benchmarks import _worker

    with tempfile.TemporaryDirectory(prefix="inferscale-copy-") as scratch:
        bench = _worker.Bench(bank, Path(scratch))
        return {job.items: _in_turns(bench, job, repeats) for job in jobs}


def _in_turns(bench: Any, job: Job, repeats: int) -> tuple[float, float]:
    rng = random.Random(job.items)
    load, copy = bench.prepared(job, rng)
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(repeats + 2):
        for kept, call in zip(times, (load, copy), strict=True):
            started = time.perf_counter()
            call()
            if number > 1:
                kept.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[0]), statistics.median(times[1])
