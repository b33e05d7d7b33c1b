"""Talking to a running sidecar: `status`, and the live half of `doctor`."""

from typing import Any

import httpx

from inferscale_sidecar.cli.output import FAILED, OK, Output
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import EngineUnavailable, SidecarError

TIMEOUT_S = 10.0


def base_url(config: Config, url: str | None) -> str:
    """Where the sidecar should be: as named, or as the settings say."""
    host = config.server.host
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    host = f"[{host}]" if ":" in host else host
    return (url or f"http://{host}:{config.server.port}").rstrip("/")


def get(base: str, path: str, api_key: str | None = None) -> httpx.Response:
    """One GET.

    Raises:
        EngineUnavailable: nothing answers there.
    """
    return _ask("GET", base, path, api_key, TIMEOUT_S)


def post(base: str, path: str, api_key: str | None, *, timeout_s: float) -> httpx.Response:
    """One POST without a body. Raises as `get` does."""
    return _ask("POST", base, path, api_key, timeout_s)


def _ask(method: str, base: str, path: str, key: str | None, timeout_s: float) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        return httpx.request(
            method, base + path, headers=headers, timeout=timeout_s, trust_env=False
        )
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise EngineUnavailable(
            f"no sidecar answers at {base} ({error}); start one with `inferscale-sidecar start`, "
            "or name it with --url"
        ) from error


def parts(base: str) -> dict[str, str]:
    """What `/ready` says of each part, ready or not, with `status` added."""
    body: dict[str, Any] = get(base, "/ready").json()
    return {"status": body["status"], **body["parts"]}


def show_status(config: Config, url: str | None, api_key: str | None, output: Output) -> int:
    """Print how the sidecar is; 0 if it is ready, 1 if not."""
    base = base_url(config, url)
    try:
        found = parts(base)
        answer = get(base, "/v1/builds", api_key)
    except ValueError as error:
        raise SidecarError(
            f"what answers at {base} is not a sidecar; name it with --url"
        ) from error
    memories = answer.json() if answer.status_code == 200 else None
    text = [f"{name:<10} {value}" for name, value in {"url": base, **found}.items()]
    if memories is not None:
        counted = ", ".join(f"{count} {state}" for state, count in memories.items())
        text.append(f"{'memories':<10} {counted}")
    output.data({"url": base, **found, "memories": memories}, "\n".join(text))
    return OK if found["status"] == "ready" else FAILED
