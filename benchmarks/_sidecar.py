"""A sidecar with its vLLM, started as a user starts it, with everything but the model thrown away.

Owns the child's life and its folder. Invariant: when `started` ends, however it ends, the sidecar
and its engine are gone.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from benchmarks._output import note

from inferscale.protocol.engine import SECRET_ENV, SECRET_HEADER
from inferscale_sidecar.config import load

STOP_TIMEOUT_S = 60


@dataclass(frozen=True)
class Sidecar:
    """A running sidecar.

    Attributes:
        home: its home and cache folder.
        secret: shared with its engine.
        pid: of the sidecar's process.
    """

    url: str
    engine_url: str
    model: str
    home: Path
    secret: str
    pid: int

    @property
    def store_url(self) -> str:
        return f"sqlite+aiosqlite:///{self.home / 'inferscale.db'}"

    @property
    def bank_dir(self) -> Path:
        return self.home / "bank"

    def engine_http(self) -> httpx.Client:
        """A client of vLLM itself, allowed to use the control plane."""
        headers = {SECRET_HEADER: self.secret}
        return httpx.Client(base_url=self.engine_url, headers=headers, timeout=300, trust_env=False)

    def engine_status(self) -> dict[str, Any]:
        """What the connector says of itself."""
        with self.engine_http() as http:
            found: dict[str, Any] = http.get("/inferscale/status").raise_for_status().json()
        return found


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that choose what is served."""
    parser.add_argument("--model", default="demo", help="what vLLM serves (default: demo model)")
    parser.add_argument(
        "--engine-args", default="", help="more flags for vLLM, in one word", metavar="WORDS"
    )


@contextmanager
def started(
    options: argparse.Namespace, *, with_engine: bool = True, settings: Sequence[str] = ()
) -> Iterator[Sidecar]:
    """Run a sidecar while the block runs.

    Args:
        options: with the flags of `add_flags`.
        with_engine: False for a sidecar that only remembers.
        settings: `KEY=VALUE`, as for `--set`.

    Raises:
        SystemExit: it did not start, or cannot inject; with its own words.
    """
    signal.signal(signal.SIGTERM, _exit)  # so that the child is stopped then, too
    with tempfile.TemporaryDirectory(prefix="inferscale-bench-") as folder:
        home = Path(folder)
        _share_models(home)
        secret = secrets.token_hex(16)
        note(f"starting a sidecar with {options.model if with_engine else 'no engine'}")
        with (home / "sidecar.log").open("w") as log:
            child = subprocess.Popen(
                _command(options, settings, with_engine=with_engine),
                env=_environment(home, secret),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C comes to us alone; we stop it in order
            )
        try:
            yield _ready(child, home, secret, injects=with_engine)
        finally:
            _stop(child)


def _command(
    options: argparse.Namespace, settings: Sequence[str], *, with_engine: bool
) -> list[str]:
    script = Path(sys.executable).with_name("inferscale-sidecar")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "inferscale_sidecar.cli"]
    engine = ["--model", options.model] if with_engine else ["--no-engine"]
    flags = [*engine, "--port", "0", "--json"]
    sets = [
        word for setting in ("server.log_level=warning", *settings) for word in ("--set", setting)
    ]
    words = shlex.split(options.engine_args) if with_engine else []
    return [
        *(*program, "start", *flags, *sets),
        *(["--", *words] if words else []),
    ]


def _environment(home: Path, secret: str) -> dict[str, str]:
    """The caller's, without settings of another sidecar."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("INFERSCALE_")}
    return {**env, "INFERSCALE_HOME": str(home), SECRET_ENV: secret}


def _share_models(home: Path) -> None:
    """The demo model is prepared once per user, not once per benchmark."""
    models = load().models_dir
    models.mkdir(parents=True, exist_ok=True)
    (home / "models").symlink_to(models)


def _ready(child: subprocess.Popen[str], home: Path, secret: str, *, injects: bool) -> Sidecar:
    assert child.stdout is not None
    line = child.stdout.readline().strip()  # empty if it ended
    found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    if "url" not in found:
        tail = (home / "sidecar.log").read_text().splitlines()[-15:]
        said = found.get("message") or "nothing"
        raise SystemExit("\n".join([f"the sidecar did not start; it said: {said}", *tail]))
    if injects and not str(found["injection"]).startswith("on"):
        raise SystemExit(f"injection is {found['injection']}: there is nothing to measure")
    note(f"ready: {found['url']} (model {found['model']})")
    return Sidecar(found["url"], found["engine_url"], found["model"], home, secret, child.pid)


def _stop(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        note(f"the sidecar did not stop within {STOP_TIMEOUT_S} s; killing it")
        child.kill()  # its engine's guard notices
        child.wait()


def _exit(number: int, frame: types.FrameType | None) -> None:
    raise SystemExit(128 + number)
