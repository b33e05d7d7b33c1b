"""Runs tiny models through vLLM in this process, one forked child each, and prints what was seen.

    python -m tests.vllm.models.offline FOLDER NAME …

One import of vLLM serves all models; a start then takes seconds. One line of JSON per model.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from inferscale.protocol.engine import SECRET_ENV, Capture, build_params, inject_params

from .zoo import MAX_MODEL_LEN, MODELS, save, save_adapter

SECRET, TENANT, HEAD, BLOCK = "a secret of the tests", "tenant-a", 20, 32


class Offline:
    """One model in vLLM's offline engine, with the connector; `changes` to how it is configured."""

    def __init__(self, name: str, folder: Path, **changes: Any) -> None:
        from vllm import LLM

        self.tiny, self.folder = MODELS[name], folder
        folder.mkdir(parents=True, exist_ok=True)
        save(name, folder / "model")
        connector = {
            "kv_connector": "InferScaleConnector",
            "kv_connector_module_path": "inferscale_vllm.connector",
            "kv_role": "kv_both",
            "engine_id": "offline",
            "kv_connector_extra_config": {"bank_dir": str(folder / "bank"), "verify_writes": True},
            **changes,
        }
        options = {
            "dtype": "bfloat16",
            "enforce_eager": True,
            "block_size": BLOCK,
            "num_gpu_blocks_override": 1024,
            **self.tiny.options,
        }
        self.llm = LLM(
            model=str(folder / "model"),
            skip_tokenizer_init=True,
            max_model_len=MAX_MODEL_LEN,
            kv_transfer_config=connector,
            **options,
        )
        self.adapter: Any = None
        if self.tiny.adapter:
            from vllm.lora.request import LoRARequest

            save_adapter(name, folder / "adapter")
            self.adapter = LoRARequest("tiny", 1, str(folder / "adapter"))

    @property
    def state(self) -> Any:
        from inferscale_vllm.state import open_state

        return open_state(self.folder / "bank" / "engines" / "offline")

    @property
    def worker(self) -> Any:
        """The connector's worker half, if the engine's worker lives in this process."""
        from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group

        return get_kv_transfer_group()._worker if has_kv_transfer_group() else None

    def complete(
        self,
        ids: list[int],
        params: dict[str, Any] | None = None,
        *,
        tokens: int = 4,
        top: int = 5,
        salt: str | None = None,
        adapter: Any = None,
    ) -> tuple[Any, int]:
        """(token ids and logprobs of the `top` best, tokens that vLLM found in its caches)."""
        from vllm import SamplingParams

        sampling = SamplingParams(
            temperature=0,
            max_tokens=tokens,
            logprobs=top,
            detokenize=False,
            ignore_eos=True,
            extra_args={"kv_transfer_params": params} if params else None,
        )
        prompt: dict[str, Any] = {"prompt_token_ids": ids}
        if salt:
            prompt["cache_salt"] = salt
        [output] = self.llm.generate([prompt], sampling, use_tqdm=False, lora_request=adapter)
        answer = output.outputs[0]
        best = [{str(k): v.logprob for k, v in step.items()} for step in answer.logprobs]
        return [list(answer.token_ids), best], output.num_cached_tokens or 0

    def report(self, request_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.state.get_report(request_id) or {}
        return {**found, "max_error": self.state.get_note(f"verify:{request_id}")}


def run(name: str, folder: Path) -> dict[str, Any]:
    """Everything that is asserted about one model."""
    from .checks import check

    start = time.monotonic()
    engine = Offline(name, folder)
    started = time.monotonic() - start
    seen: dict[str, Any] = {
        "unsupported": engine.state.get_note("unsupported"),
        "self_test": engine.state.get_note("self_test"),
        "layout": engine.state.get_note("layout"),
    }
    seen |= check(engine)
    return {**seen, "start_s": round(started, 1), "total_s": round(time.monotonic() - start, 1)}


def build(keys: list[str], items: list[list[int]], request_id: str) -> dict[str, Any]:
    """Parameters of a build that captures every item behind the head."""
    captures, at = [], HEAD
    for key, item in zip(keys, items, strict=True):
        captures.append(Capture(key, at, at + len(item)))
        at += len(item)
    return build_params(
        SECRET, request_id=request_id, salt=TENANT, captures=captures, prefix_end=HEAD
    )


def inject(keys: list[str], request_id: str) -> dict[str, Any]:
    return inject_params(SECRET, request_id=request_id, salt=TENANT, items=keys, always=True)


def set_environment() -> None:
    """That of an engine on CPU, in this process."""
    os.environ.update(
        {
            SECRET_ENV: SECRET,
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_CI_ENV": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        }
    )


def main(folder: Path, names: list[str]) -> None:
    set_environment()
    several = [name for name in names if "tensor_parallel_size" in MODELS[name].options]
    if several == names[:1]:  # alone, see below
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
        _report(names[0], folder)
        return
    import vllm.v1.engine.llm_engine
    import vllm.v1.worker.cpu_worker  # noqa: F401 - imported once, for all children

    for name in names:
        if (child := os.fork()) == 0:
            if name in several:  # workers are processes of their own: their parent starts afresh
                again = [sys.executable, "-m", "tests.vllm.models.offline", str(folder), name]
                os.execv(sys.executable, again)
            _report(name, folder)
            os._exit(0)
        os.waitpid(child, 0)


def _report(name: str, folder: Path) -> None:
    try:
        result = run(name, folder / name)
    except Exception:  # noqa: BLE001 - the test shows it
        result = {"error": traceback.format_exc()}
    print("RESULT", json.dumps({"name": name, **result}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
