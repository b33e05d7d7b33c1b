"""Real vLLM engines for the gates, and the vocabulary that the gates are written in."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferscale.protocol.engine import (
    SECRET_HEADER,
    Capture,
    build_params,
    inject_params,
    item_key,
)
from inferscale_sidecar.engine import demo_model, guard

SECRET = "a secret of the tests"
TENANT = "tenant-a"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The many models are for those who ask for them (`make test-models`)."""
    if "models" in config.option.markexpr:
        return
    asked = [item for item in items if item.get_closest_marker("models") is None]
    config.hook.pytest_deselected(items=[item for item in items if item not in asked])
    items[:] = asked


@dataclass
class Answer:
    """What the engine said to one completion request, and what the connector says it did."""

    token_ids: list[int]
    logprobs: list[float]
    alternatives: list[dict[str, float]]
    cached_tokens: int
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def bits(self) -> tuple[Any, ...]:
        """Everything that must be equal when two answers are said to be bit-equal."""
        return (self.token_ids, self.logprobs, self.alternatives)


class EngineProcess:
    """One `vllm` API server. Starting takes 15 to 30 s."""

    def __init__(
        self,
        model: Path,
        folder: Path,
        *,
        bank_dir: Path | None = None,
        bank_options: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self.bank_dir = bank_dir or folder / "bank"
        self._bank_options = bank_options or {}
        self.log_path = folder / "engine.log"
        self._port = _free_port()
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(model), "--served-model-name", "demo", "--port", str(self._port)]
        command += ["--enforce-eager", "--max-model-len", "4096", "--return-tokens-as-token-ids"]
        command += ["--scheduling-policy", "priority", "--enable-prompt-tokens-details"]
        command += self._connector_flags()
        env = {
            **os.environ,
            "INFERSCALE_ENGINE_SECRET": SECRET,
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        # The guard ends the engine when this process goes, however it goes.
        command = [sys.executable, guard.__file__, "20", *command, *flags]
        with self.log_path.open("w") as log:
            self._process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self._port}",
            timeout=180,
            headers={SECRET_HEADER: SECRET},
            limits=httpx.Limits(max_connections=64),
        )
        self._wait()

    def _connector_flags(self) -> list[str]:
        config = {
            "kv_connector": "InferScaleConnector",
            "kv_connector_module_path": "inferscale_vllm.connector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": {
                "bank_dir": str(self.bank_dir),
                "bank_size_bytes": 2**30,
                "verify_writes": True,
                **self._bank_options,
            },
        }
        middleware = ["--middleware", "inferscale_vllm.control.ControlPlane"]
        return [*middleware, "--kv-transfer-config", json.dumps(config)]

    def _wait(self) -> None:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if self.http.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.2)
        tail = "\n".join(self.log_path.read_text().splitlines()[-30:])
        self.stop()
        raise RuntimeError(f"the engine did not start:\n{tail}")

    def is_alive(self) -> bool:
        return self._process.poll() is None and self.http.get("/health").status_code == 200

    def kill(self) -> None:
        """As a power cut would: no handler runs in any of its processes."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def stop(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        finally:
            _kill_group(self._process.pid)
            self.http.close()

    # The wire.

    def complete(
        self,
        ids: list[int],
        params: dict[str, Any] | None = None,
        *,
        tokens: int = 8,
        **fields: Any,
    ) -> Answer:
        body = {"model": "demo", "prompt": ids, "max_tokens": tokens, "temperature": 0}
        body |= {"logprobs": 5, "ignore_eos": True, **fields}
        if params:
            body["kv_transfer_params"] = params
        response = self.http.post("/v1/completions", json=body)
        response.raise_for_status()
        answer = _answer(response.json())
        self._settle(answer.report)
        return answer

    def _settle(self, report: dict[str, Any]) -> None:
        """Waits until what a build captured is in the bank, as the sidecar does."""
        waiting, deadline = report.get("pending"), time.monotonic() + 60
        while waiting:
            assert time.monotonic() < deadline, f"{len(waiting)} items are never written"
            waiting = self.post("/inferscale/items/query", {"keys": waiting})["pending"]

    def status(self) -> dict[str, Any]:
        result: dict[str, Any] = self.http.get("/inferscale/status").json()
        return result

    def present(self, keys: Sequence[str]) -> list[str]:
        found: list[str] = self.post("/inferscale/items/query", {"keys": list(keys)})["present"]
        return found

    def delete(self, keys: Sequence[str]) -> int:
        count: int = self.post("/inferscale/items/delete", {"keys": list(keys)})["deleted"]
        return count

    def post(self, path: str, body: Any) -> dict[str, Any]:
        response = self.http.post(path, json=body)
        response.raise_for_status()
        result: dict[str, Any] = response.json()
        return result


def _answer(body: dict[str, Any]) -> Answer:
    choice = body["choices"][0]
    details = body["usage"].get("prompt_tokens_details") or {}
    return Answer(
        token_ids=[int(t.removeprefix("token_id:")) for t in choice["logprobs"]["tokens"]],
        logprobs=choice["logprobs"]["token_logprobs"],
        alternatives=choice["logprobs"]["top_logprobs"],
        cached_tokens=details.get("cached_tokens") or 0,
        report=(body.get("kv_transfer_params") or {}).get("inferscale", {}),
    )


@dataclass(frozen=True)
class BuiltList:
    """Items as they were built: one prompt `head + items`, every item captured where it stands."""

    head: list[int]
    items: list[list[int]]
    keys: list[str]
    tail: list[int]

    def prompt(
        self, order: Sequence[int] | None = None, tail: list[int] | None = None
    ) -> list[int]:
        order = range(len(self.items)) if order is None else order
        body = [token for index in order for token in self.items[index]]
        return [*self.head, *body, *(self.tail if tail is None else tail)]

    def inject(
        self, request_id: str, order: Sequence[int] | None = None, *, tenant: str = TENANT
    ) -> dict[str, Any]:
        order = range(len(self.items)) if order is None else order
        keys = [self.keys[index] for index in order]
        return inject_params(SECRET, request_id=request_id, salt=tenant, items=keys, always=True)

    def build(self, request_id: str, *, tenant: str = TENANT) -> dict[str, Any]:
        captures, start = [], len(self.head)
        for key, item in zip(self.keys, self.items, strict=True):
            captures.append(Capture(key, start, start + len(item)))
            start += len(item)
        return build_params(
            SECRET,
            request_id=request_id,
            salt=tenant,
            captures=captures,
            prefix_end=len(self.head),
        )


def make_list(seed: int, *, head: int = 20, sizes: Sequence[int] = (), tail: int = 9) -> BuiltList:
    """A list of random tokens: the gates are about bytes, not about meaning."""
    rng = random.Random(seed)
    sizes = sizes or [rng.randrange(6, 30) for _ in range(12)]

    def draw(count: int) -> list[int]:
        return [rng.randrange(1000, 40_000) for _ in range(count)]

    head_ids, items = draw(head), [draw(size) for size in sizes]
    keys: list[str] = []
    context = list(head_ids)
    for item in items:
        keys.append(item_key(b"tenant salt", "demo", "test", context, item))
        context += item
    return BuiltList(head_ids, items, keys, draw(tail))


@pytest.fixture(scope="session")
def demo_model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Path(os.environ.get("INFERSCALE_HOME", Path.home() / ".cache" / "inferscale"))
    return demo_model.prepare(home / "models")


@pytest.fixture(scope="session")
def two_engines(
    demo_model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[EngineProcess]]:
    """Two engines of the same flags. They start side by side: a start is imports, on one core."""
    folders = [tmp_path_factory.mktemp(name) for name in ("engine", "plain")]
    with ThreadPoolExecutor(2) as pool:
        processes = list(pool.map(lambda folder: EngineProcess(demo_model_path, folder), folders))
    yield processes
    for process in processes:
        process.stop()


@pytest.fixture(scope="session")
def engine(two_engines: list[EngineProcess]) -> EngineProcess:
    """An engine with the connector."""
    return two_engines[0]


@pytest.fixture(scope="session")
def plain_engine(two_engines: list[EngineProcess]) -> EngineProcess:
    """An engine of the same flags that is never asked to build or inject: the truth to compare
    with.

    It loads the connector too, because vLLM itself decodes with other rounding once any connector
    is loaded, a no-op one included (0.32 on CPU: logprobs differ in the second digit behind the
    point).
    """
    return two_engines[1]


@pytest.fixture
def start_engine(
    demo_model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., EngineProcess]]:
    """Starts more engines with other flags or on the same bank, for one test."""
    started: list[EngineProcess] = []

    def start(**options: Any) -> EngineProcess:
        started.append(EngineProcess(demo_model_path, tmp_path_factory.mktemp("more"), **options))
        return started[-1]

    yield start
    for process in started:
        process.stop()


@pytest.fixture(scope="session")
def new_list() -> Callable[..., BuiltList]:
    return make_list


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
