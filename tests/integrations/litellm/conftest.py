"""A real LiteLLM proxy in front of a sidecar, set up as in `examples/litellm_config.yaml`."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the price list that came with it: no network

EXAMPLE = Path(__file__).parents[3] / "examples" / "litellm_config.yaml"
MORE = """
  cache: true
  cache_params: {type: local}
general_settings:
  custom_auth: keys.checked
  forward_client_headers_to_llm_api: true
  dangerously_allow_mock_testing_request_params: true
"""
ELSEWHERE = """
  - model_name: elsewhere
    litellm_params: {model: hosted_vllm/MODEL, api_base: "http://localhost:PORT/v1", api_key: none}
"""
"""The same server under another name, which is not the sidecar's as far as anyone can tell."""
KEYS = """
from litellm.proxy._types import UserAPIKeyAuth


async def checked(request, api_key):
    user = api_key.removeprefix("sk-")
    return UserAPIKeyAuth(api_key=api_key, user_id=None if user == "nobody" else user)
"""


@contextmanager
def proxied(folder: Path, url: str, model: str) -> Iterator[str]:
    """The address of a proxy whose keys are `sk-` and a user's name, until the end of the block."""
    pytest.importorskip("litellm.proxy", reason="the proxy is not installed: run_tests.sh")
    port = url.rpartition(":")[2]
    config = EXAMPLE.read_text().replace("smollm2-135m-instruct", model)
    config = config.replace("http://127.0.0.1:8420", url)
    more = ELSEWHERE.strip("\n").replace("MODEL", model).replace("PORT", port)
    config = config.replace("\nlitellm_settings:", f"{more}\nlitellm_settings:")
    (folder / "config.yaml").write_text(config.rstrip() + MORE)
    (folder / "keys.py").write_text(KEYS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    argv = [sys.executable, "-c", "from litellm import run_server; run_server()"]
    argv += ["--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(own)]
    env = {
        **os.environ,
        "INFERSCALE_BASE_URL": url,
        "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    log = folder / "log"
    with log.open("w") as file, subprocess.Popen(argv, stdout=file, stderr=file, env=env) as proxy:
        try:
            _wait(f"http://127.0.0.1:{own}", proxy, log)
            yield f"http://127.0.0.1:{own}"
        finally:
            proxy.terminate()


def _wait(url: str, proxy: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and proxy.poll() is None:
        try:
            if httpx.get(f"{url}/health/liveliness").is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise AssertionError(f"the proxy did not start: {log.read_text()[-4000:]}")


@pytest.fixture(scope="session")
def proxy(running: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A proxy before the sidecar with the scripted engine."""
    with proxied(tmp_path_factory.mktemp("proxy"), running.url, "scripted") as url:
        yield url


@pytest.fixture(scope="session")
def start_proxy() -> Callable[..., object]:
    """`with start_proxy(folder, url, model) as address`."""
    return proxied
