"""Writes what happened to requests with memory into the Prometheus metrics."""

from collections.abc import Callable

from inferscale_sidecar.errors import EngineUnavailable
from inferscale_sidecar.metrics import Metrics


class MetricsRecorder:
    """`ChatRecorder` on `Metrics`.

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

    def _name(self) -> str:
        try:
            return self._model()
        except EngineUnavailable:
            return ""
