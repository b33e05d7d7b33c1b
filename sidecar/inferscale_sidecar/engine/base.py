"""The engine port: all that the rest of the sidecar may ask of vLLM.

Owns shapes and the contract, no I/O. Invariant: a call either answers or raises a `SidecarError`;
that the engine is down, starting or gone is always `EngineUnavailable`, never an exception of an
HTTP library.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inferscale.protocol.engine import EngineReport
from inferscale_sidecar.errors import SidecarError


class EngineError(SidecarError):
    """The engine answered with an error. `status` and `body` are its own (OpenAI error JSON)."""

    code = "engine_error"

    def __init__(self, message: str, *, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


@dataclass(frozen=True)
class EngineRequest:
    """One HTTP request for the engine.

    `path` is absolute, e.g. `/v1/models`; headers are cleaned already.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""


@dataclass(frozen=True)
class Presence:
    """Which of some item keys the bank holds.

    Attributes:
        present: in the bank.
        pending: captured and being written; ask again soon.
    """

    present: frozenset[str]
    pending: frozenset[str]


class EngineResponse(Protocol):
    """An answer whose body is still coming.

    Whoever opened it must `aclose` it: that cancels upstream.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, unbuffered.

        Raises `EngineUnavailable` if the engine breaks off.
        """
        ...

    async def read(self) -> bytes:
        """The rest of the body at once."""
        ...

    async def aclose(self) -> None:
        """Ends the exchange; an unfinished request is aborted in the engine."""
        ...


class Engine(Protocol):
    """vLLM with our connector inside. Safe to share between tasks."""

    @property
    def base_url(self) -> str:
        """Where the engine listens, without a trailing slash."""
        ...

    @property
    def secret(self) -> str:
        """Shared with the engine; signs `kv_transfer_params`."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the last `status` succeeded and nothing failed since."""
        ...

    @property
    def can_inject(self) -> bool:
        """Whether the engine is ready and injection is switched on there."""
        ...

    @property
    def model(self) -> str:
        """The served model's name. Raises `EngineUnavailable` before the first `status`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name of the engine's bank: of its model's namespace, and which of those with it.

        Raises `EngineUnavailable` before the first `status`.
        """
        ...

    async def status(self) -> dict[str, Any]:
        """The connector's status (`GET /inferscale/status`).

        Raises `Unsupported` without a connector.
        """
        ...

    async def open(self, request: EngineRequest) -> EngineResponse:
        """Sends a request and returns once the answer's head is here, whatever its status."""
        ...

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """`POST /v1/completions`. Raises `EngineError` for any status but 200."""
        ...

    async def tokenize(self, body: Mapping[str, Any]) -> list[int]:
        """`POST /tokenize`: the token ids that the engine itself gives a prompt or messages."""
        ...

    async def present(self, keys: Sequence[str]) -> set[str]:
        """Which of these item keys the bank holds."""
        ...

    async def look_up(self, keys: Sequence[str]) -> Presence:
        """The same, and which of them are on their way there."""
        ...

    async def delete(self, keys: Sequence[str], texts: Sequence[str] = ()) -> int:
        """Drops items from the bank; returns how many were there. Blocks of the prefix cache that
        hold one of them, or one of `texts` (names, see `compose.shown`), are found no more."""
        ...

    async def clear(self) -> int:
        """Drops all items from the bank; returns how many there were."""
        ...

    async def report(self, request_id: str) -> EngineReport | None:
        """What the connector did with a request; None if it does not know (any more)."""
        ...

    async def set_injection(self, enabled: bool, reason: str | None = None) -> None:
        """Switches injection on or off in the engine."""
        ...
