"""Prometheus metrics of the sidecar. Owns names, labels and buckets.

Invariant: no tenant, user, handle or memory id is ever a label; label sets that are closed exist
from the start, at 0, so that rates and alerts work before the first event.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from inferscale.protocol.engine import REASONS
from inferscale_sidecar import errors
from inferscale_sidecar.limits import Limits

LATENCY_BUCKETS = (
    *(0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.25, 0.4, 0.5),
    *(0.75, 1, 1.5, 2.5, 5, 10, 20, 40),
)
STAGE_BUCKETS = (
    *(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1, 2.5),
)
BUILD_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
ITEM_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)

OPERATIONS = (
    *("add", "get", "list", "search", "update", "delete", "history", "recall", "resolve"),
    "documents",
    *("block_read", "block_write", "thread_read", "thread_write"),
)
OUTCOMES = ("ok", "invalid", "not_found", "conflict", "limited", "unsupported", "error")
STAGES = ("embed", "search", "rerank", "compose")
AUTH_FAILURES = ("missing", "unknown", "forbidden")
LIMITS = tuple(field.name for field in fields(Limits))
MODES = ("injected", "partial", "text", "none")
SOURCES = ("injected", "native", "prefilled")
ARENAS = ("host", "hbm")

_OUTCOME_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (errors.InvalidInput, "invalid"),
    (errors.TooLarge, "invalid"),
    (errors.PermissionDenied, "invalid"),
    (errors.NotFound, "not_found"),
    (errors.Conflict, "conflict"),
    (errors.QuotaExceeded, "limited"),
    (errors.Unsupported, "unsupported"),
)


class Growth:
    """A counter that follows a total kept elsewhere, from the first look on.

    A total that became smaller was begun anew.
    """

    def __init__(self, counter: Counter) -> None:
        self._counter, self._last = counter, -1

    def saw(self, total: int) -> None:
        if self._last >= 0:
            self._counter.inc(total - self._last if total >= self._last else total)
        self._last = total


class Metrics:
    """All metrics, in a registry of their own: two sidecars in one process do not meet.

    Args:
        version: of the sidecar, shown in `inferscale_build_info`.
    """

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        self._create_http()
        self._create_memory()
        self._create_chat()
        self._create_builds()
        self._create_bank()
        info = self._gauge("build_info", "Version of the running sidecar.", "version")
        info.labels(version).set(1)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Count and time a memory operation (one of `OPERATIONS`) by how it ends."""
        outcome = "error"
        try:
            with self.operation_duration.labels(name).time():
                yield
            outcome = "ok"
        except Exception as error:
            if isinstance(error, errors.QuotaExceeded) and error.limit in LIMITS:
                self.quota_rejections.labels(error.limit).inc()
            outcome = next((o for kind, o in _OUTCOME_BY_ERROR if isinstance(error, kind)), outcome)
            raise
        finally:
            self.operations.labels(name, outcome).inc()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage of recall (one of `STAGES`)."""
        with self.recall_stage.labels(name).time():
            yield

    def serve_model(self, model_name: str) -> None:
        """Create the closed label sets of a served model."""
        for mode in MODES:
            self.ttft.labels(model_name, mode)
            self.chat_duration.labels(model_name, mode)
        for source in SOURCES:
            self.prompt_tokens.labels(model_name, source)
        for reason in REASONS:
            self.fallback_requests.labels(model_name, reason)
        self.add_to_injectable.labels(model_name)
        for outcome in ("ok", "failed"):
            self.builds.labels(model_name, outcome)

    def _create_http(self) -> None:
        labels = ("method", "route", "code")
        self.http_requests = self._counter("http_requests", "HTTP requests.", *labels)
        self.http_duration = self._histogram(
            "http_request_duration_seconds",
            "Time from request to the end of the response.",
            LATENCY_BUCKETS,
            "method",
            "route",
        )
        self.auth_failures = self._counter("auth_failures", "Refused callers.", "reason")
        for reason in AUTH_FAILURES:
            self.auth_failures.labels(reason)
        self.quota_rejections = self._counter(
            "quota_rejections", "Requests over a limit of their tenant.", "reason"
        )
        for limit in LIMITS:
            self.quota_rejections.labels(limit)

    def _create_memory(self) -> None:
        self.operations = self._counter(
            "memory_operations", "Memory operations.", "operation", "outcome"
        )
        self.operation_duration = self._histogram(
            "memory_operation_duration_seconds",
            "Duration of memory operations.",
            STAGE_BUCKETS,
            "operation",
        )
        self.recall_stage = self._histogram(
            "recall_stage_duration_seconds", "Duration of recall stages.", STAGE_BUCKETS, "stage"
        )
        self.recall_items = self._histogram(
            "recall_items", "Items in a recalled composition.", ITEM_BUCKETS
        )
        self.handles_active = self._gauge("handles_active", "Handles that have not expired.")
        for name in OPERATIONS:
            self.operation_duration.labels(name)
            for outcome in OUTCOMES:
                self.operations.labels(name, outcome)
        for stage in STAGES:
            self.recall_stage.labels(stage)

    def _create_chat(self) -> None:
        model = ("model_name", "mode")
        self.ttft = self._histogram(
            "time_to_first_token_seconds", "Request to first token.", LATENCY_BUCKETS, *model
        )
        self.chat_duration = self._histogram(
            "chat_duration_seconds", "Request to last token.", LATENCY_BUCKETS, *model
        )
        self.prompt_tokens = self._counter(
            "prompt_tokens", "Prompt tokens by where their KV came from.", "model_name", "source"
        )
        self.fallback_requests = self._counter(
            "fallback_requests",
            "Requests with memory that was not all injected.",
            "model_name",
            "reason",
        )
        self.engine_up = self._gauge("engine_up", "1 while vLLM answers.")
        self.injection_enabled = self._gauge("injection_enabled", "1 while KV can be injected.")

    def _create_builds(self) -> None:
        self.build_queue = self._gauge("build_queue_items", "Memories waiting for their KV.")
        self.builds = self._counter("builds", "Build requests.", "model_name", "outcome")
        self.add_to_injectable = self._histogram(
            "add_to_injectable_seconds",
            "From the write of a memory until its KV can be injected.",
            BUILD_BUCKETS,
            "model_name",
        )

    def _create_bank(self) -> None:
        self.kv_items = self._gauge("kv_items", "Items in the KV bank.")
        self.kv_bytes = self._gauge("kv_bytes", "Bytes that they take.", "tier")
        self.kv_limit = self._gauge("kv_limit_bytes", "Most that the bank's file may take.")
        for tier in ("disk", *ARENAS):
            self.kv_bytes.labels(tier)
        evictions = self._counter("kv_evictions", "Items evicted for others.", "tier")
        lookups = self._counter("kv_lookups", "Items asked of the bank.", "outcome")
        broken = self._counter("kv_checksum_failures", "Items that failed their checksum.")
        delayed = self._counter("delayed_requests", "Put off to a later step of the engine.")
        forgotten = self._counter(
            "prefix_cache_forgotten_blocks", "Taken out of vLLM's prefix cache: a text was deleted."
        )
        self.arena_evictions = {tier: Growth(evictions.labels(tier)) for tier in ARENAS}
        self.kv_growth = {
            "evicted_items": Growth(evictions.labels("disk")),
            "bank_hits": Growth(lookups.labels("hit")),
            "bank_misses": Growth(lookups.labels("miss")),
            "corrupt_items": Growth(broken),
            "delayed_requests": Growth(delayed),
            "forgotten_blocks": Growth(forgotten),
        }

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"inferscale_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"inferscale_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(
            f"inferscale_{name}", text, labels, buckets=buckets, registry=self.registry
        )
