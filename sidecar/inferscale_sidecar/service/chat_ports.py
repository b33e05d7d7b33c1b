"""What `ChatService` needs of its neighbours, as narrow as it is."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from inferscale_sidecar.core import Composition, KvItem, Scope, Tenant


class Recall(Protocol):
    """What this service needs of recall."""

    async def recall(
        self,
        tenant: Tenant,
        scope: Scope,
        query: str,
        *,
        k: int,
        threshold: float | None,
        filters: Mapping[str, Any] | None,
        max_tokens: int | None,
        keep: bool,
    ) -> Composition: ...

    async def resolve(self, tenant: Tenant, handle: str) -> Composition: ...


class KvLookup(Protocol):
    """What this service needs of the store."""

    async def kv_items(
        self, tenant_id: str, fingerprint: str, versions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], KvItem]: ...


class Suspects(Protocol):
    """Who looks after keys that the bank turned out not to hold (the build queue)."""

    def suspect(self, keys: list[str]) -> None: ...


class ChatRecorder(Protocol):
    """Metrics of requests with memory."""

    def ttft(self, mode: str, seconds: float) -> None: ...

    def duration(self, mode: str, seconds: float) -> None: ...

    def tokens(self, source: str, count: int) -> None: ...

    def fallback(self, reason: str) -> None: ...


class Silent:
    """A recorder that records nothing."""

    def ttft(self, mode: str, seconds: float) -> None: ...

    def duration(self, mode: str, seconds: float) -> None: ...

    def tokens(self, source: str, count: int) -> None: ...

    def fallback(self, reason: str) -> None: ...
