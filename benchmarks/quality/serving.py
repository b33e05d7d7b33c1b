"""The real engine, started with the sidecar's own command line plus teacher forcing.

Owns the process and three kinds of request: score, build (through the sidecar's own code), time.
Every request has a cache salt of its own, so nothing is ever found in vLLM's prefix cache unless
the caller gives the same salt twice.
"""

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from benchmarks.quality import TEACHER_FOLDER_ENV
from benchmarks.quality.stats import log_softmax

from inferscale_sidecar.config import Config, EngineConfig
from inferscale_sidecar.engine.base import EngineError, EngineRequest
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.engine.command import choose_model, detect_device, vllm_command
from inferscale_sidecar.engine.process import GroupLauncher, tail
from inferscale_sidecar.errors import EngineUnavailable

StoreDtype = Literal["auto", "bf16", "int8", "k8v4"]
ROOT = Path(__file__).resolve().parents[2]
START_S = 300
_TEACHER = "benchmarks.quality.teacher:TeacherForcing"


class Serving:
    """One engine that scores.

    Args:
        client: of the engine.
        model_folder: what it serves; the tokenizer lies there.
        folder: where teacher forcing leaves its files.
    """

    def __init__(self, client: EngineClient, model_folder: str, folder: Path) -> None:
        self.client, self.model_folder, self._folder = client, model_folder, folder
        self.reasons: dict[str, int] = {}
        """Why injection was declined or partial, by how often."""

    async def score(
        self,
        ids: Sequence[int],
        answer: Sequence[int],
        params: dict[str, Any] | None = None,
        *,
        salt: str | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Has the model say `answer` behind `ids`.

        Returns:
            Logprobs `[len(answer), vocabulary]` that the model gave each position, and the
            connector's report (empty without `params`).
        """
        name = secrets.token_hex(12)
        body = self._body(ids, len(answer), params, salt)
        body["vllm_xargs"] = {"teacher_ids": list(answer), "teacher_name": name}
        reply = await self.client.complete(body)
        path = self._folder / f"{name}.npy"
        logits = np.load(path)
        path.unlink()
        report = (reply.get("kv_transfer_params") or {}).get("inferscale", {})
        if params is not None and report.get("reason"):
            self.reasons[report["reason"]] = self.reasons.get(report["reason"], 0) + 1
        return log_softmax(logits), report

    async def ttft_ms(self, ids: Sequence[int], params: dict[str, Any] | None = None) -> float:
        """Milliseconds until the first streamed token."""
        body = self._body(ids, 2, params, None) | {"stream": True}
        request = EngineRequest(
            "POST",
            "/v1/completions",
            headers={"content-type": "application/json"},
            content=json.dumps(body).encode(),
        )
        start = time.perf_counter()
        response = await self.client.open(request)
        try:
            async for _ in response.chunks():
                return (time.perf_counter() - start) * 1e3
        finally:
            await response.aclose()
        raise RuntimeError(f"the engine answered {response.status} without a token")

    def _body(
        self,
        ids: Sequence[int],
        tokens: int,
        params: dict[str, Any] | None,
        salt: str | None,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.client.model,
            "prompt": list(ids),
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "cache_salt": salt or secrets.token_hex(16),
        }
        return body | ({"kv_transfer_params": params} if params else {})


@asynccontextmanager
async def serving(
    folder: Path, *, model: str = "demo", args: Sequence[str] = (), store_dtype: StoreDtype = "bf16"
) -> AsyncIterator[Serving]:
    """Starts an engine under `folder` and ends it afterwards. Takes 15 to 60 s.

    Args:
        folder: for its bank, log and files; the prepared demo model is cached elsewhere.
        model: as the setting `engine.model`.
        args: more flags of vLLM.
        store_dtype: as the setting `engine.kv_store_dtype`.

    Raises:
        RuntimeError: it did not start; the end of its log is in the message.
    """
    port, secret = _free_port(), secrets.token_hex(16)
    cache = Path(os.environ.get("INFERSCALE_HOME") or "~/.cache/inferscale").expanduser()
    flags = ("--logits-processors", _TEACHER, "--no-async-scheduling", *args)
    engine = EngineConfig(
        model=model, args=flags, bank_dir=folder / "bank", kv_store_dtype=store_dtype
    )
    config = Config(home=folder, cache=cache, engine=engine)
    served = choose_model(config, detect_device())
    command = vllm_command(config, served, device=detect_device(), port=port, secret=secret)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    env = {**command.env, TEACHER_FOLDER_ENV: str(folder), "PYTHONPATH": path}
    command = replace(command, env=env)
    child = await GroupLauncher().launch(command, grace_s=10)
    try:
        async with EngineClient(f"http://127.0.0.1:{port}", secret) as client:
            await _ready(client, child.wait(), command.log)
            yield Serving(client, served.path, folder)
    finally:
        child.terminate()
        await asyncio.sleep(0)
        await child.kill()


async def _ready(client: EngineClient, ended: Any, log: Path | None) -> None:
    dead = asyncio.ensure_future(ended)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and not dead.done():
        try:
            await client.status()
        except (EngineUnavailable, EngineError):
            await asyncio.sleep(0.5)
        else:
            dead.cancel()
            return
    raise RuntimeError(f"the engine did not start:\n{tail(log, 30)}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
