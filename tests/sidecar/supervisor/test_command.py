"""vLLM's command line: what it must contain, and which model is the default."""

import json
from pathlib import Path

import pytest

from inferscale_sidecar.config import load
from inferscale_sidecar.engine.command import (
    ServedModel,
    chat_template_of,
    choose_model,
    detect_device,
    vllm_command,
)
from inferscale_sidecar.errors import ConfigError

MODEL = ServedModel("/models/m", "m", 4096)
SECRET = "s" * 32


def build(tmp_path: Path, device: str = "cpu", **flags: object) -> tuple[list[str], dict[str, str]]:
    settings = {f"engine.{name}": value for name, value in flags.items()}
    config = load(settings, env={"INFERSCALE_HOME": str(tmp_path)})
    command = vllm_command(config, MODEL, device=device, port=1234, secret=SECRET)  # type: ignore[arg-type]
    return list(command.argv), dict(command.env)


def value(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_the_connector_is_loaded_by_its_module(tmp_path: Path) -> None:
    argv, _ = build(tmp_path, bank_size_bytes="1GiB")
    transfer = json.loads(value(argv, "--kv-transfer-config"))
    assert transfer["kv_connector_module_path"] == "inferscale_vllm.connector"
    assert transfer["kv_load_failure_policy"] == "fail"
    assert transfer["kv_connector_extra_config"] == {
        "bank_dir": str(tmp_path / "bank"),
        "bank_size_bytes": 2**30,
        "kv_store_dtype": "bf16",
        "bank_tenant_share": 1,
        "inject_step_bytes": 256 * 2**20,
        "host_arena_bytes": 2 * 2**30,
        "hbm_arena_bytes": 0,
    }


def test_the_engine_listens_on_loopback_only(tmp_path: Path) -> None:
    argv, _ = build(tmp_path)
    assert value(argv, "--host") == "127.0.0.1"
    assert value(argv, "--port") == "1234"


def test_the_secret_travels_by_environment_and_is_never_shown(tmp_path: Path) -> None:
    config = load(env={"INFERSCALE_HOME": str(tmp_path)})
    command = vllm_command(config, MODEL, device="cpu", port=1, secret=SECRET)
    assert SECRET not in " ".join(command.argv)
    assert command.env["INFERSCALE_ENGINE_SECRET"] == SECRET
    assert SECRET not in repr(command)


def test_cpu_is_eager_with_a_bounded_cache_and_cuda_is_not(tmp_path: Path) -> None:
    argv, env = build(tmp_path, cpu_kv_space_gib=3)
    assert "--enforce-eager" in argv
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "3"
    argv, env = build(tmp_path, device="cuda")
    assert "--enforce-eager" not in argv
    assert "VLLM_CPU_KVCACHE_SPACE" not in env


def test_own_arguments_come_last_and_so_win(tmp_path: Path) -> None:
    argv, _ = build(tmp_path, args="--max-model-len 2048")
    assert argv[-2:] == ["--max-model-len", "2048"]


def test_a_named_model_is_taken_as_it_is(tmp_path: Path) -> None:
    config = load({"engine.model": "org/model"}, env={"INFERSCALE_HOME": str(tmp_path)})
    assert choose_model(config, "cpu") == ServedModel("org/model", "org/model")


def test_a_gpu_is_not_wasted_on_the_demo_model(tmp_path: Path) -> None:
    config = load(env={"INFERSCALE_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="--model demo"):
        choose_model(config, "cuda")


def test_without_a_gpu_the_device_is_cpu() -> None:
    assert detect_device(lambda: False) == "cpu"


def test_the_chat_template_of_the_flags_is_the_one_that_vllm_gets(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("{{ messages }}")
    assert chat_template_of(()) is None
    assert chat_template_of(("--max-model-len", "4096", "--chat-template", str(file))) == (
        "{{ messages }}"
    )
    assert chat_template_of((f"--chat-template={file}", "--seed", "1")) == "{{ messages }}"
    written = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert chat_template_of(("--chat-template", str(file), "--chat-template", written)) == written
    assert chat_template_of(("--chat-template-content-format", "string")) is None
    with pytest.raises(ConfigError, match="cannot be read"):
        chat_template_of(("--chat-template", str(tmp_path / "none")))
