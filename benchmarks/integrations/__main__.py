"""What an integration adds to a call of its framework, and what it consists of.

Each framework runs in its own environment (`integrations/run_tests.sh` makes them; one that is
missing is skipped with a note) against one sidecar application with a scripted engine, so that
no model's time is in the figures. Rows: `framework`, `version`, `lines` (of the package, without
blank ones), `by_hand_ms` (median of a call with the field `memory` put in without us), `added_ms`
(median of what our integration adds to the same question), `added_p95_ms`, `remember_ms` (median of
what remembering adds on top, a request of its own) and `samples`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import _output

ROOT = Path(__file__).parents[2]
VENVS = Path(os.environ.get("VENVS") or ROOT / ".cache" / "integrations")
QUICK_CALLS, CALLS = 50, 300
PATHS = ("", "sdk", "sidecar", "kernels", "integrations")
FRAMEWORKS = {
    "agent-framework": ("inferscale_agent_framework", "agent-framework-core"),
    "agno": ("inferscale_agno", "agno"),
    "crewai": ("inferscale_crewai", "crewai"),
    "google-adk": ("inferscale_adk", "google-adk"),
    "haystack": ("inferscale_haystack", "haystack-ai"),
    "langchain": ("inferscale_langchain", "langchain"),
    "litellm": ("inferscale_litellm", "litellm"),
    "llama-index": ("inferscale_llama_index", "llama-index-core"),
    "mcp": ("inferscale_mcp", "mcp"),
    "openai-agents": ("inferscale_agents", "openai-agents"),
    "pydantic-ai": ("inferscale_pydantic_ai", "pydantic-ai-slim"),
    "strands": ("inferscale_strands", "strands-agents"),
}
"""Extra → our package, and the distribution that has the framework's version."""

Times = Mapping[str, Sequence[float]]


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    parser.add_argument("--only", action="append", choices=sorted(FRAMEWORKS))
    options = parser.parse_args()
    machine, rows = _output.machine(), []
    calls = QUICK_CALLS if options.quick else CALLS
    with tempfile.TemporaryDirectory(prefix="inferscale-bench-") as folder, _served(folder) as url:
        for extra in options.only or sorted(FRAMEWORKS):
            python = VENVS / extra / "bin" / "python"
            if not python.exists():
                _output.note(f"{extra} is skipped: run integrations/run_tests.sh {extra}")
                continue
            _output.note(f"{extra}: {calls} questions")
            worker = ("-m", "benchmarks.integrations.worker", extra, url)
            times = json.loads(_said(python, *worker, str(calls), str(options.seed)))
            rows.append(row(extra, _version(python, FRAMEWORKS[extra][1]), times))
    _output.show("integrations", machine, rows, as_json=options.json)


def row(extra: str, version: str, times: Times) -> dict[str, Any]:
    """The figures of one framework."""
    added = _differences(times["attached"], times["by_hand"])
    remembered = times.get("remembered")
    return {
        "framework": extra,
        "version": version,
        "lines": lines_of(FRAMEWORKS[extra][0]),
        "by_hand_ms": round(statistics.median(times["by_hand"]), 2),
        "added_ms": round(statistics.median(added), 2),
        "added_p95_ms": round(statistics.quantiles(added, n=20)[-1], 2),
        "remember_ms": round(statistics.median(_differences(remembered, times["attached"])), 2)
        if remembered
        else None,
        "samples": len(added),
    }


def lines_of(package: str) -> int:
    """Lines of a package of ours that are not blank."""
    files = (ROOT / "integrations" / package).glob("**/*.py")
    return sum(bool(line.strip()) for file in files for line in file.read_text().splitlines())


def _differences(these: Sequence[float], those: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(these, those, strict=True)]


@contextmanager
def _served(folder: str) -> Iterator[str]:
    """The address of the sidecar's application, with a scripted engine."""
    argv = [sys.executable, str(ROOT / "tests" / "integrations" / "served.py"), folder]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=_env()) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise SystemExit("the sidecar did not start; its errors are above")
        try:
            yield url
        finally:
            process.terminate()


def _version(python: Path, distribution: str) -> str:
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    return _said(python, "-c", code)


def _said(python: Path, *words: str) -> str:
    """The last line of what an interpreter prints; its errors go to ours."""
    done = subprocess.run(
        [str(python), *words], stdout=subprocess.PIPE, text=True, env=_env(), cwd=ROOT, check=False
    )
    if done.returncode:
        raise SystemExit(f"{python} {' '.join(words)} failed; its errors are above")
    return done.stdout.strip().splitlines()[-1]


def _env() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("INFERSCALE_")}
    path = os.pathsep.join(str(ROOT / part) for part in PATHS)
    offline = {"HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return env | offline | {"PYTHONPATH": path}


if __name__ == "__main__":
    main()
