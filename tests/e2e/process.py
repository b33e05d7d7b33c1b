"""A sidecar process with a real vLLM and the demo model, started as an operator starts it.

Owns the process, its home folder and its keys. Knows nothing about what is asked of it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from inferscale.protocol.engine import SECRET_ENV
from inferscale_sidecar.config import load

SECRET = "the secret of the end-to-end tests"
START_S = 180


class SidecarProcess:
    """Started by `start` or `with`, as often as wanted on the same home.

    Args:
        home: its folder.
        engine_args: flags of its vLLM.
        flags: its own.
    """

    def __init__(
        self, home: Path, *, engine_args: tuple[str, ...] = (), flags: tuple[str, ...] = ()
    ) -> None:
        self.home = home
        self._engine_args, self._flags = engine_args, flags
        models = load().models_dir  # shared, so that the demo model is made once per machine
        models.mkdir(parents=True, exist_ok=True)
        (home / "models").symlink_to(models)
        usual = {k: v for k, v in os.environ.items() if not k.startswith("INFERSCALE_")}
        self._env = {**usual, "INFERSCALE_HOME": str(home), SECRET_ENV: SECRET}
        self._env |= {"HF_HUB_OFFLINE": "1", "INFERSCALE_ENGINE_CPU_KV_SPACE_GIB": "1"}
        self._env |= {"INFERSCALE_EXTRACT_MAX_TOKENS": "320"}  # the demo model never ends by itself
        self._process: subprocess.Popen[bytes] | None = None
        self.url = self.engine_url = self.model = ""

    # Commands that need no running sidecar.

    def cli(self, *words: str) -> dict[str, Any]:
        """The document that a command prints."""
        argv = [sys.executable, "-m", "inferscale_sidecar.cli", *words, "--json"]
        done = subprocess.run(argv, env=self._env, capture_output=True, check=True, timeout=60)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def key(self, tenant: str = "default") -> str:
        """A new API key of a tenant; its secret."""
        return str(self.cli("keys", "create", "tests", "--tenant", tenant)["secret"])

    # Life.

    def start(self) -> None:
        """Start it and wait until it serves. Injection must be on."""
        argv = [sys.executable, "-m", "inferscale_sidecar.cli", "start", "--json", "--port", "0"]
        argv += ["--model", "demo", *self._flags, "--", *self._engine_args]
        with (self.home / "sidecar.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv, env=self._env, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        ready = json.loads(self._process.stdout.readline() or "{}")
        assert ready.get("injection") == "on", (ready, self.log_tail())
        self.url, self.engine_url, self.model = ready["url"], ready["engine_url"], ready["model"]

    def log_tail(self) -> str:
        """The last lines of the sidecar's own log."""
        return "\n".join((self.home / "sidecar.log").read_text().splitlines()[-30:])

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def engines(self) -> list[psutil.Process]:
        """All processes below the sidecar: guard, API server, engine core."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def kill_engine(self) -> None:
        """SIGKILL for the engine's whole process group, guard included."""
        groups = {os.getpgid(process.pid) for process in self.engines()}
        for group in groups - {os.getpgid(0)}:
            os.killpg(group, signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL for the sidecar alone, as the kernel's OOM killer would."""
        assert self._process is not None
        self._process.kill()
        self._wait(10)

    def stop(self, timeout_s: float = 40) -> int:
        """SIGTERM, and wait until it has ended; its exit code."""
        assert self._process is not None
        if self.is_running:
            self._process.terminate()
        return self._wait(timeout_s)

    def _wait(self, timeout_s: float) -> int:
        assert self._process is not None
        code = self._process.wait(timeout_s)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_running:
            self.stop()


class Engine:
    """The vLLM behind a sidecar, asked directly: what the sidecar's clients cannot see."""

    def __init__(self, sidecar: SidecarProcess) -> None:
        headers = {"x-inferscale-secret": SECRET}
        self._model = sidecar.model
        self.http = httpx.Client(base_url=sidecar.engine_url, headers=headers, timeout=60)

    def present(self, keys: list[str]) -> set[str]:
        """Those of the item keys that the bank would serve."""
        return set(self._post("/inferscale/items/query", {"keys": keys})["present"])

    def status(self) -> dict[str, Any]:
        result: dict[str, Any] = self.http.get("/inferscale/status").raise_for_status().json()
        return result

    def text(self, token_ids: list[int]) -> str:
        """Token ids as text, special tokens spelled out."""
        return str(self._post("/detokenize", {"model": self._model, "tokens": token_ids})["prompt"])

    def tokens(self, text: str) -> list[int]:
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return list(self._post("/tokenize", body)["tokens"])

    def tokens_of(self, messages: list[dict[str, Any]]) -> int:
        """How many tokens a chat has, as the engine renders it."""
        body = {"model": self._model, "messages": messages, "add_generation_prompt": False}
        return len(self._post("/tokenize", body)["tokens"])

    def counter(self, name: str) -> int:
        """A counter of vLLM's metrics, over all labels."""
        lines = self.http.get("/metrics").text.splitlines()
        return int(sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{")))

    def running(self) -> int:
        """Requests that vLLM works on now, waiting ones included."""
        lines = self.http.get("/metrics").text.splitlines()
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting{")
        return int(sum(float(line.split()[-1]) for line in lines if line.startswith(names)))

    def wait_idle(self, timeout_s: float) -> float:
        """Seconds until no request was left in vLLM."""
        started = time.monotonic()
        while self.running():
            waited = time.monotonic() - started
            assert waited < timeout_s, f"{self.running()} requests still run after {waited:.1f} s"
            time.sleep(0.1)
        return time.monotonic() - started

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.http.post(path, json=body).raise_for_status().json()
        return result


def wait_gone(processes: list[psutil.Process], timeout_s: float = 40) -> None:
    """Wait until none of them runs."""
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    assert not alive, f"left behind: {alive}"
