"""Puts together what turns memories into KV, if this model and these settings allow any."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from inferscale_sidecar.build.exact import LazyExactness
from inferscale_sidecar.build.policy import STRICT_POLICY
from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.prefix_finder import PrefixFinder
from inferscale_sidecar.build.queue import BuildQueue
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.config import Config
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.engine.tokenizer import ChatTokenizer
from inferscale_sidecar.engine.verdict import VerdictFile
from inferscale_sidecar.errors import ConfigError, Unsupported
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.chat_metrics import MetricsRecorder
from inferscale_sidecar.service.chat_turns import NextTurns
from inferscale_sidecar.service.quality import QualityCheck
from inferscale_sidecar.service.quality_gate import QualityGate
from inferscale_sidecar.store import MemoryStore

log = logging.getLogger(__name__)

USES_BEFORE_EXACT = {"on": 1, "auto": 2}
"""`auto`: a handle that was used twice is taken for one that an agent loops over."""


@dataclass(frozen=True)
class Builder:
    """What turns memories into KV. There is none if injection is off or impossible."""

    tokenizer: ChatTokenizer
    lists: ListTokenizer
    queue: BuildQueue
    warmer: PrefixWarmer
    gate: QualityGate
    lazy: LazyExactness | None
    finder: PrefixFinder
    turns: NextTurns


def make_recorder(metrics: Metrics, engine: Engine) -> MetricsRecorder:
    """What tells the metrics of chats and builds, by the name of the served model."""
    return MetricsRecorder(metrics, lambda: engine.model)


def make_builder(
    config: Config,
    store: MemoryStore,
    engine: Engine,
    metrics: Metrics,
    load: Callable[[], ChatTokenizer],
) -> Builder | None:
    """The builder; None with a warning if this model's memory can only be served as text.

    Args:
        load: loads the model's tokenizer; takes seconds, so call this in a thread.
    """
    if not (config.inject.enabled and config.engine.enabled):
        return None
    try:
        tokenizer = load()
    except Unsupported as error:
        log.warning("%s", error)
        return None
    lists = ListTokenizer.for_model(tokenizer)
    warmer = PrefixWarmer(engine, ledger=store, openings=lists.openings)
    limits = _limits(config)
    queue = BuildQueue(
        store,
        engine,
        lists,
        limits=limits,
        on_connect=warmer.clear,
        on_purge=warmer.purged,
        recorder=make_recorder(metrics, engine),
    )
    check = QualityCheck(engine, tokenizer, lists, limits)
    gate = QualityGate(engine, check, VerdictFile(config.cache / "quality"))
    uses = USES_BEFORE_EXACT.get(config.inject.lazy_exactness)
    lazy = LazyExactness(engine, after_uses=uses) if uses else None
    finder = PrefixFinder(engine, lists)
    turns = NextTurns(finder, warmer)
    return Builder(tokenizer, lists, queue, warmer, gate, lazy, finder, turns)


def _limits(config: Config) -> WindowLimits:
    """Raises `ConfigError` if the encode policy is not understood, or breaks the isolation."""
    inject = config.inject
    policy = inject.policy or (STRICT_POLICY if inject.strict_isolation else "")
    limits = WindowLimits(items=inject.window_items, context=inject.previous_items, policy=policy)
    if inject.strict_isolation and not limits.encode_policy.is_isolated:
        raise ConfigError(
            f"encode policy {policy!r} lets memories shape each other's KV, which "
            "inject.strict_isolation forbids; unset one of the two, or use generic(m)",
            param="inject.policy",
        )
    return limits
