"""How often and how many at once: a tenant's requests, counted in this process.

Owns the counting of requests and running streams; quotas of what is stored are the store's. A
sidecar counts for itself: behind one database, n sidecars let through up to n times as much.
Invariant: in no span of 60 seconds are more requests of a kind admitted than the limit says.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from inferscale_sidecar.errors import RateLimited
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.metrics import Metrics

Kind = Literal["read", "write", "chat"]
WINDOW_S = 60
_STREAM_RETRY_S = 1.0


@dataclass(frozen=True)
class Standing:
    """Where a tenant stands after a request. `reset_s`: seconds until more is admitted again."""

    policy: str
    quota: int
    remaining: int
    reset_s: int


class _Window:
    """Requests of the last minute by second: bounded, and exact to the safe side."""

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()  # [second, requests in it], oldest first
        self._total = 0

    def take(self, now: float, quota: int) -> bool:
        """True, and counted, if there is room for one more."""
        second = math.floor(now)
        while self._seconds and self._seconds[0][0] + 1 + WINDOW_S <= now:
            self._total -= self._seconds.popleft()[1]
        if self._total >= quota:
            return False
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += 1
        else:
            self._seconds.append([second, 1])
        self._total += 1
        return True

    def remaining(self, quota: int) -> int:
        return max(0, quota - self._total)

    def wait_s(self, now: float, quota: int) -> float:
        """Seconds until room for one more comes; until any comes back, if there is some."""
        excess, at = self._total - quota + 1, WINDOW_S + now
        for second, requests in self._seconds:
            excess -= requests
            at = second + 1 + WINDOW_S
            if excess <= 0:
                break
        return at - now


class Admission:
    """Admits requests by tenant and kind, and counts running streams.

    Args:
        metrics: where refusals are counted.
        monotonic: seconds.
    """

    def __init__(
        self, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._metrics = metrics
        self._now = monotonic
        self._windows: dict[tuple[str, Kind], _Window] = {}
        self._streams: dict[str, int] = {}

    def admit(self, tenant_id: str, kind: Kind, limits: Limits) -> Standing | None:
        """Count a request. Where the tenant stands then; None if there is no limit.

        Raises:
            RateLimited: too many in the last minute; this one is not counted.
        """
        quota = _per_minute(kind, limits)
        if not quota:
            self._windows.pop((tenant_id, kind), None)
            return None
        window, now = self._windows.setdefault((tenant_id, kind), _Window()), self._now()
        if not window.take(now, quota):
            wait_s = window.wait_s(now, quota)
            name = f"{kind}_per_minute"
            self._metrics.quota_rejections.labels(name).inc()
            raise RateLimited(
                f"more than {quota} {kind} requests in a minute, this tenant's limit {name}; "
                f"send this one again in {math.ceil(wait_s)} s, or have the limit raised with "
                "'inferscale-sidecar tenants limits'",
                limit=name,
                value=quota,
                window_s=WINDOW_S,
                retry_after_s=wait_s,
            )
        reset_s = math.ceil(window.wait_s(now, quota))
        return Standing(kind, quota, window.remaining(quota), reset_s)

    @contextmanager
    def stream(self, tenant_id: str, limits: Limits) -> Iterator[None]:
        """Counts as a running stream inside the block. Entering raises RateLimited."""
        running = self._streams.get(tenant_id, 0)
        if limits.streams and running >= limits.streams:
            self._metrics.quota_rejections.labels("streams").inc()
            raise RateLimited(
                f"{running} streams are running, this tenant's limit streams is {limits.streams}; "
                "wait until one has ended, or have the limit raised with "
                "'inferscale-sidecar tenants limits'",
                limit="streams",
                value=limits.streams,
                retry_after_s=_STREAM_RETRY_S,
            )
        self._streams[tenant_id] = running + 1
        try:
            yield
        finally:
            self._streams[tenant_id] -= 1
            if not self._streams[tenant_id]:
                del self._streams[tenant_id]


def _per_minute(kind: Kind, limits: Limits) -> int:
    by_kind = {
        "read": limits.read_per_minute,
        "write": limits.write_per_minute,
        "chat": limits.chat_per_minute,
    }
    return by_kind[kind]
