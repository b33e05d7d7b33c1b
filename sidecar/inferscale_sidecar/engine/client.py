"""`Engine` over HTTP: vLLM's OpenAI API and the connector's control plane on one connection pool.

Owns the translation of transport failures and of the control plane's JSON. Does not own retries
(callers know what may be repeated) nor the engine's process. Bodies are passed as raw bytes, never
re-encoded.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from inferscale.protocol.engine import PROTOCOL_VERSION, SECRET_HEADER, EngineReport
from inferscale_sidecar.engine.base import EngineError, EngineRequest, EngineResponse, Presence
from inferscale_sidecar.errors import EngineUnavailable, Unsupported

CONNECT_TIMEOUT_S = 5.0
CONTROL_TIMEOUT_S = 30.0


class EngineClient:
    """See `Engine`. Use as an async context manager, or call `aclose`.

    Args:
        base_url: the engine's address, e.g. `http://127.0.0.1:8000`.
        secret: shared with the engine (`INFERSCALE_ENGINE_SECRET`).
        api_key: the engine's own API key, if it was started with one.
        transport: replaces the network in tests.
    """

    def __init__(
        self,
        base_url: str,
        secret: str,
        *,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._status: dict[str, Any] | None = None
        self._is_ready = False
        self._model = ""
        self._http = httpx.AsyncClient(
            base_url=self._base_url,
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> "EngineClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections; requests still running are aborted in the engine."""
        await self._http.aclose()

    @property
    def base_url(self) -> str:
        return self._base_url

    @property
    def secret(self) -> str:
        return self._secret

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def can_inject(self) -> bool:
        injection = (self._status or {}).get("injection") or {}
        return self._is_ready and bool(injection.get("enabled"))

    @property
    def model(self) -> str:
        self._known("model")
        return self._model

    @property
    def fingerprint(self) -> str:
        self._known("fingerprint")
        return bank_name(self._status or {})

    def _known(self, name: str) -> Any:
        if self._status is None:
            raise EngineUnavailable(f"the engine at {self._base_url} has not answered yet")
        return self._status[name]

    async def status(self) -> dict[str, Any]:
        answer = await self._control("GET", "/inferscale/status")
        if answer is None:
            raise Unsupported(
                f"the engine at {self._base_url} runs without the InferScale connector; start it "
                "with --middleware inferscale_vllm.control.ControlPlane and --kv-transfer-config "
                "(see the docs), or let the sidecar start it"
            )
        if answer.get("protocol") != PROTOCOL_VERSION:
            raise Unsupported(
                f"the engine speaks protocol {answer.get('protocol')!r}, this sidecar "
                f"{PROTOCOL_VERSION}; install the same version of inferscale-memory for both"
            )
        self._model = await self._served_model()
        self._status, self._is_ready = answer, True
        return answer

    async def _served_model(self) -> str:
        """The name that requests must use; the connector knows only what vLLM loaded."""
        with self._mapped_errors():
            response = await self._http.get("/v1/models", timeout=CONTROL_TIMEOUT_S)
        models = self._parsed(response)["data"]
        return str(models[0]["id"])

    async def open(self, request: EngineRequest) -> EngineResponse:
        built = self._http.build_request(
            request.method,
            request.path + (f"?{request.query}" if request.query else ""),
            headers=dict(request.headers),
            content=request.content or None,
        )
        with self._mapped_errors():
            return _HttpResponse(await self._http.send(built, stream=True), self)

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._post("/v1/completions", body)

    async def tokenize(self, body: Mapping[str, Any]) -> list[int]:
        return [int(i) for i in (await self._post("/tokenize", body))["tokens"]]

    async def present(self, keys: Sequence[str]) -> set[str]:
        return set((await self.look_up(keys)).present)

    async def look_up(self, keys: Sequence[str]) -> Presence:
        answer = await self._control("POST", "/inferscale/items/query", {"keys": list(keys)}) or {}
        present, pending = (frozenset(answer.get(name, ())) for name in ("present", "pending"))
        return Presence(present, pending)

    async def delete(self, keys: Sequence[str], texts: Sequence[str] = ()) -> int:
        body = {"keys": list(keys), "texts": list(texts)}
        answer = await self._control("POST", "/inferscale/items/delete", body)
        return int((answer or {}).get("deleted", 0))

    async def clear(self) -> int:
        answer = await self._control("POST", "/inferscale/items/delete", {"all": True})
        return int((answer or {}).get("deleted", 0))

    async def report(self, request_id: str) -> EngineReport | None:
        answer = await self._control("GET", f"/inferscale/reports/{request_id}")
        if answer is None:
            return None
        known = {k: v for k, v in answer.items() if k in EngineReport.__dataclass_fields__}
        lists = {name: tuple(known.get(name, ())) for name in ("stored", "pending")}
        return EngineReport(**{**known, **lists})

    async def set_injection(self, enabled: bool, reason: str | None = None) -> None:
        await self._control("POST", "/inferscale/injection", {"enabled": enabled, "reason": reason})
        if self._status is not None:
            self._status["injection"] = {"enabled": enabled, "reason": reason}

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        with self._mapped_errors():
            response = await self._http.post(path, content=json.dumps(body).encode(), headers=_JSON)
        return self._parsed(response)

    async def _control(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """One call of the control plane; None if there is no such thing (404)."""
        headers = {**_JSON, SECRET_HEADER: self._secret}
        content = None if body is None else json.dumps(body).encode()
        with self._mapped_errors():
            response = await self._http.request(
                method, path, content=content, headers=headers, timeout=CONTROL_TIMEOUT_S
            )
        return None if response.status_code == 404 else self._parsed(response)

    def _parsed(self, response: httpx.Response) -> dict[str, Any]:
        if response.status_code in (502, 503):
            raise self._lost(f"HTTP {response.status_code}")
        if response.status_code != 200:
            raise EngineError(
                f"the engine answered {response.status_code} to {response.request.url.path}: "
                f"{response.text[:500]}",
                status=response.status_code,
                body=response.content,
            )
        answer = response.json()
        if not isinstance(answer, dict):
            raise EngineError("the engine's answer is not a JSON object", status=502)
        return answer

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise self._lost(f"{type(error).__name__}: {error}") from error

    def _lost(self, cause: str) -> EngineUnavailable:
        self._is_ready = False
        return EngineUnavailable(
            f"no answer from the engine at {self._base_url} ({cause}); it may be starting or "
            "restarting: retry, or look at `inferscale-sidecar status`"
        )


class _HttpResponse:
    """`EngineResponse` over httpx."""

    def __init__(self, response: httpx.Response, client: EngineClient) -> None:
        self._response = response
        self._client = client
        self.status = response.status_code
        self.headers = response.headers.multi_items()

    async def chunks(self) -> AsyncIterator[bytes]:
        with self._client._mapped_errors():
            async for chunk in self._response.aiter_raw():
                yield chunk

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def aclose(self) -> None:
        await self._response.aclose()


def bank_name(status: Mapping[str, Any]) -> str:
    """`Engine.fingerprint` from a connector's status; older connectors have no name for a bank."""
    bank = status.get("bank_id")
    return f"{status['fingerprint']}@{bank}" if bank else str(status["fingerprint"])


_JSON = {"content-type": "application/json", "accept-encoding": "identity"}
