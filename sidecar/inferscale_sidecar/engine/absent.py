"""No engine at all: a sidecar that only remembers. Chats are refused, everything else works."""

from collections.abc import Mapping, Sequence
from typing import Any, Never

from inferscale.protocol.engine import EngineReport
from inferscale_sidecar.engine.base import EngineRequest, Presence
from inferscale_sidecar.engine.health import HealthBoard
from inferscale_sidecar.errors import EngineUnavailable

REASON = "there is no engine (engine.enabled is false)"


def _refuse() -> Never:
    raise EngineUnavailable(
        "this sidecar keeps memories only, there is no engine behind it; start it without "
        "--no-engine to chat",
        retry_after_s=3_600,
    )


class Absence(HealthBoard):
    """Ready from the start: nothing is waited for."""

    async def start(self) -> None:
        """Be ready."""
        self._set("ready", REASON)

    async def stop(self) -> None:
        """Be stopped."""
        self._set("stopped", REASON)


class AbsentEngine:
    """Implements `Engine`: whatever needs one raises `EngineUnavailable`."""

    base_url = ""
    secret = ""
    is_ready = False
    can_inject = False
    model = "none"

    @property
    def fingerprint(self) -> str:
        _refuse()

    async def status(self) -> dict[str, Any]:
        return {"model": self.model, "injection": {"enabled": False, "reason": REASON}}

    async def open(self, request: EngineRequest) -> Never:
        _refuse()

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _refuse()

    async def tokenize(self, body: Mapping[str, Any]) -> list[int]:
        _refuse()

    async def present(self, keys: Sequence[str]) -> set[str]:
        _refuse()

    async def look_up(self, keys: Sequence[str]) -> Presence:
        _refuse()

    async def clear(self) -> int:
        _refuse()

    async def delete(self, keys: Sequence[str], texts: Sequence[str] = ()) -> int:
        _refuse()

    async def report(self, request_id: str) -> EngineReport | None:
        return None

    async def set_injection(self, enabled: bool, reason: str | None = None) -> None:
        """Nothing to switch."""

    async def aclose(self) -> None:
        """Nothing to close."""
