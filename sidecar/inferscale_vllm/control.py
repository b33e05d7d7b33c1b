"""The control plane inside vLLM's API server: status, presence and deletion of items, reports, the
switch.

    --middleware inferscale_vllm.control.ControlPlane

Plain ASGI in front of vLLM's routes, under `/inferscale/` only; needs the shared secret in every
request. It talks to the engine's processes through the bank and the engine's state, so nothing here
costs an engine step.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict
from typing import Any

from inferscale import __version__
from inferscale.protocol.engine import PROTOCOL_VERSION, SECRET_HEADER
from inferscale_vllm import cost
from inferscale_vllm.bank import Bank, BankRefused
from inferscale_vllm.compat import vllm_version
from inferscale_vllm.operation import is_text_name
from inferscale_vllm.report import FORGOTTEN_NOTE
from inferscale_vllm.settings import Settings
from inferscale_vllm.state import EngineState, open_state
from inferscale_vllm.tiers import policy
from inferscale_vllm.writer import pending_keys, summed

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIX = "/inferscale/"
MAX_BODY_BYTES = 4 * 2**20


class _Problem(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ControlPlane:
    """ASGI middleware. `settings` are read from the application's `VllmConfig` unless given."""

    def __init__(self, app: App, settings: Settings | None = None) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        try:
            status, body = 200, await self._answer(scope, receive)
        except _Problem as problem:
            status = problem.status
            body = {"error": {"message": str(problem), "type": "inferscale_error", "code": status}}
        payload = json.dumps(body).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(payload)),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": payload})

    async def _answer(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        config = scope["app"].state.vllm_config
        if self._settings is None:
            self._settings = Settings.of(config)
        self._check_secret(scope)
        match scope["method"], scope["path"].removeprefix(PREFIX).split("/"):
            case "GET", ["status"]:
                return self._status(config)
            case "GET", ["reports", request_id]:
                return self._report(request_id)
            case "POST", ["items", "query"]:
                return self._query(_keys(await _json(receive)))
            case "POST", ["items", "delete"]:
                return self._delete(await _json(receive))
            case "POST", ["injection"]:
                return self._switch(await _json(receive))
        raise _Problem(404, f"no such operation: {scope['method']} {scope['path']}")

    def _check_secret(self, scope: Scope) -> None:
        secret = self._require().secret
        given = dict(scope["headers"]).get(SECRET_HEADER.encode(), b"")
        if secret is None or not hmac.compare_digest(given, secret.encode()):
            raise _Problem(401, "the shared secret is missing or wrong")

    def _require(self) -> Settings:
        assert self._settings is not None
        return self._settings

    def _states(self) -> list[EngineState]:
        """One state per data-parallel rank: vLLM appends `_dp{rank}` to the engine's id."""
        settings = self._require()
        folder = settings.state_path.parent
        paths = sorted(folder.glob(f"{settings.engine_id}*")) or [settings.state_path]
        return [open_state(path) for path in paths]

    def _status(self, config: Any) -> dict[str, Any]:
        settings, states = self._require(), self._states()
        first = states[0]
        unsupported = first.get_note("unsupported")
        switch = first.get_note("injection", {"enabled": True, "reason": None})
        if unsupported:
            switch = {"enabled": False, "reason": unsupported}
        banks = self._banks()
        for bank in banks:
            bank.purge()  # the sidecar asks every other second: what was deleted leaves the disk
        return {
            "protocol": PROTOCOL_VERSION,
            "vllm_version": vllm_version(),
            "inferscale_version": __version__,
            "model": config.model_config.model,
            "fingerprint": settings.fingerprint,
            "bank_id": settings.bank_id if banks else None,
            "injection": switch,
            "block_size": config.cache_config.block_size,
            "max_model_len": config.model_config.max_model_len,
            **first.get_note("layout", {"num_layers": None, "kv_bytes_per_token": None}),
            "bank": asdict(banks[0].stats()) if banks else None,
            "tiers": first.get_note(policy.NOTE),
            "storage": first.get_note("storage:0"),
            "writer": summed(states, settings.num_ranks),
            "self_test": first.get_note("self_test", {"passed": None, "detail": "not run yet"}),
            "prefix_cache": self._prefix_cache(states),
            "counters": first.get_note("counters", {"declined": {}}),
            "cost": first.get_note(cost.NOTE),
        }

    def _prefix_cache(self, states: list[EngineState]) -> dict[str, Any]:
        """How many blocks were taken out of vLLM's cache because what they held was deleted, and
        how many deletions wait for the next request, which they come before."""
        last = self._require().open_forgotten().last
        clean = min(state.get_note(FORGOTTEN_NOTE, 0) for state in states)
        totals = [state.get_note("counters", {}).get("forgotten_blocks", 0) for state in states]
        return {"forgotten_blocks": sum(totals), "waiting": last - clean}

    def _banks(self) -> list[Bank]:
        """Banks of all ranks; none if they are refused (the scheduler has noted why)."""
        settings = self._require()
        try:
            return [settings.open_bank(rank) for rank in range(settings.num_ranks)]
        except BankRefused:
            return []

    def _report(self, request_id: str) -> dict[str, Any]:
        for state in self._states():
            report = state.get_report(request_id)
            if report is not None:
                report["max_error"] = state.get_note(f"verify:{request_id}")
                return report
        raise _Problem(404, f"no report of request {request_id[:128]!r}")

    def _query(self, keys: list[str]) -> dict[str, Any]:
        pending = pending_keys(self._states(), self._require().num_ranks)  # before the bank
        columns = [bank.headers(keys) for bank in self._banks()]
        rows: list[tuple[Any, ...]] = list(zip(*columns, strict=True)) or [(None,)] * len(keys)
        present = [key for key, row in zip(keys, rows, strict=True) if all(row)]
        rest = pending.difference(present)
        return {"present": present, "pending": [key for key in keys if key in rest]}

    def _delete(self, body: Any) -> dict[str, Any]:
        is_all = isinstance(body, dict) and body.get("all") is True
        keys, texts = ([], []) if is_all else (_keys(body), _texts(body))
        deleted = 0
        for bank in self._banks():
            deleted = max(deleted, bank.retire(bank.keys() if is_all else keys))
            bank.purge()
        log = self._require().open_forgotten()  # last: what is out of service is not injected again
        log.add_everything() if is_all else log.add([*keys, *texts])
        return {"deleted": deleted}

    def _switch(self, body: Any) -> dict[str, Any]:
        if not isinstance(body, dict) or not isinstance(body.get("enabled"), bool):
            raise _Problem(400, 'send {"enabled": true|false, "reason": "…"}')
        switch = {"enabled": body["enabled"], "reason": body.get("reason")}
        for state in self._states():
            state.note("injection", switch)
        return switch


async def _json(receive: Receive) -> Any:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Problem(400, "the client went away")
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _Problem(413, f"the body is over {MAX_BODY_BYTES} bytes; send fewer keys at once")
        if not message.get("more_body"):
            break
    try:
        return json.loads(body)
    except ValueError as error:
        raise _Problem(400, f"the body is not JSON: {error}") from error


def _keys(body: Any) -> list[str]:
    keys = body.get("keys") if isinstance(body, dict) else None
    if not isinstance(keys, list):
        raise _Problem(400, 'send {"keys": [64 hex digits, …]}')
    for key in keys:
        if not isinstance(key, str) or len(key) != 64 or not _is_hex(key):
            raise _Problem(400, f"item key {key!r:.80} is not 64 hex digits")
    return [key.lower() for key in keys]


def _texts(body: Any) -> list[str]:
    texts = body.get("texts", [])
    if not isinstance(texts, list) or not all(is_text_name(text) for text in texts):
        raise _Problem(400, '"texts" must be a list of names that prompts showed texts under')
    return texts


def _is_hex(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True
