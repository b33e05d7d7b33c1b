"""A sidecar process with a real vLLM and the demo model, for tests that need both."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx


class RealSidecar:
    """Started with `with`, stopped at its end. Data in `home`, the model from the usual cache."""

    def __init__(self, home: Path) -> None:
        env = {name: value for name, value in os.environ.items() if name != "INFERSCALE_HOME"}
        env |= {"XDG_DATA_HOME": str(home), "HF_HUB_OFFLINE": "1"}
        sets = ("--set", f"engine.bank_dir={home}/bank", "--set", "engine.cpu_kv_space_gib=1")
        argv = (sys.executable, "-m", "inferscale_sidecar.cli", "start", "--json", "--port", "0")
        self._process = subprocess.Popen(
            [*argv, "--model", "demo", *sets], stdout=subprocess.PIPE, env=env
        )
        self.url = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_restart(self) -> None:
        """Return once the sidecar has noticed that its engine died."""
        deadline = time.monotonic() + 60
        while "restarts" not in httpx.get(f"{self.url}/ready").json()["parts"]:
            assert time.monotonic() < deadline, "the engine's death was not noticed"
            time.sleep(0.1)

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        ready = json.loads(self._process.stdout.readline())
        if ready.get("injection") != "on":
            self.stop()
            raise AssertionError(ready)
        self.url = ready["url"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """SIGTERM, and wait until all is down."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()
