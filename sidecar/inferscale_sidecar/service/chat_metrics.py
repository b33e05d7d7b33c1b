"""Writes what happened to requests with memory, and to builds, into the Prometheus metrics."""

from collections.abc import Callable, Mapping
from typing import Any

from inferscale_sidecar.errors import EngineUnavailable
from inferscale_sidecar.metrics import Metrics


class MetricsRecorder:
    """`ChatRecorder` and `BuildRecorder` on `Metrics`.

    Args:
        metrics: where to.
        model: name of the served model; may raise `EngineUnavailable` as long as it is unknown.
    """

    def __init__(self, metrics: Metrics, model: Callable[[], str]) -> None:
        self._metrics, self._model = metrics, model

    def ttft(self, mode: str, seconds: float) -> None:
        self._metrics.ttft.labels(self._name(), mode).observe(seconds)

    def duration(self, mode: str, seconds: float) -> None:
        self._metrics.chat_duration.labels(self._name(), mode).observe(seconds)

    def tokens(self, source: str, count: int) -> None:
        self._metrics.prompt_tokens.labels(self._name(), source).inc(count)

    def fallback(self, reason: str) -> None:
        self._metrics.fallback_requests.labels(self._name(), reason).inc()

    def waiting(self, items: int) -> None:
        self._metrics.build_queue.set(items)

    def window(self, outcome: str) -> None:
        self._metrics.builds.labels(self._name(), outcome).inc()

    def injectable(self, seconds: float) -> None:
        self._metrics.add_to_injectable.labels(self._name()).observe(seconds)

    def bank(
        self, stats: Mapping[str, Any], counters: Mapping[str, Any], tiers: Mapping[str, Any]
    ) -> None:
        self._metrics.kv_items.set(stats.get("items", 0))
        self._metrics.kv_bytes.labels("disk").set(stats.get("used_bytes", 0))
        self._metrics.kv_limit.set(stats.get("limit_bytes", 0))
        for tier, evictions in self._metrics.arena_evictions.items():
            arena = tiers.get(tier, {})
            self._metrics.kv_bytes.labels(tier).set(arena.get("used_bytes", 0))
            evictions.saw(int(arena.get("evicted_items", 0)))
        for name, growth in self._metrics.kv_growth.items():
            growth.saw(int(stats.get(name, counters.get(name, 0))))

    def _name(self) -> str:
        try:
            return self._model()
        except EngineUnavailable:
            return ""
