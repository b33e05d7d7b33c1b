"""How close the data path of injection is to a plain copy of the same bytes.

Rows: `op`, `device`, `model`, `tokens`, `bytes` (read + written, what the op cannot avoid), `ms`,
`copy_ms` (a copy measured beside it), and `achieved` = copy_ms / ms. On a GPU the copy moves as
many bytes as the op. Without one the CPU path is measured, the rotation without the engine's own
writer, against a memcpy of the uncompressed items.

The op is checked against its reference before it is timed: no figure is printed on a wrong result.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from benchmarks._kernel_cases import LLAMA, SMOLLM2, Measured, on_cpu, on_gpu
from benchmarks._output import machine, show


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the kernels against a plain copy.")
    parser.add_argument("--json", action="store_true", help="print one JSON object, last line")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    repeats = 9 if options.quick else 41
    on = machine()
    rows = list(_rows(repeats))
    show("kernels", f"{on}, {options.threads} threads", rows, as_json=options.json)


def _rows(repeats: int) -> Iterator[dict[str, Any]]:
    has_gpu = torch.cuda.is_available()
    cases = [(SMOLLM2, 1000), (SMOLLM2, 4000)] + ([(LLAMA, 4000), (LLAMA, 16000)] * has_gpu)
    for model, tokens in cases:
        for measured in on_gpu(model, tokens) if has_gpu else on_cpu(model, tokens):
            ms, copy_ms = _interleaved(measured, repeats, has_gpu)
            yield {
                "op": measured.op,
                "device": "cuda" if has_gpu else "cpu",
                "model": model.name,
                "tokens": tokens,
                "bytes": measured.moved_bytes,
                "ms": round(ms, 4),
                "copy_ms": round(copy_ms, 4),
                "achieved": round(copy_ms / ms, 3),
            }


def _interleaved(measured: Measured, repeats: int, has_gpu: bool) -> tuple[float, float]:
    """Median milliseconds of the op and of the copy, taken in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for kept, call in zip(times, (measured.call, measured.copy), strict=True):
            kept.append(_gpu_ms(call) if has_gpu else _cpu_ms(call))
    return statistics.median(times[0]), statistics.median(times[1])


def _cpu_ms(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def _gpu_ms(call: Callable[[], object]) -> float:
    """Device time of one call, host preparation left out as the engine overlaps it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(10_000_000)  # the launches queue up behind this
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


if __name__ == "__main__":
    main()
