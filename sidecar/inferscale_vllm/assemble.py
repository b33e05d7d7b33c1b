"""Puts the scheduler's half together: which object gets which. No logic."""

import logging
from typing import Any

from inferscale_vllm import compat
from inferscale_vllm.bank import Bank, BankRefused
from inferscale_vllm.forget import Forgetter
from inferscale_vllm.planner import Planner
from inferscale_vllm.report import Reporter
from inferscale_vllm.scheduler import Scheduler
from inferscale_vllm.settings import Settings
from inferscale_vllm.state import EngineState
from inferscale_vllm.support import unsupported
from inferscale_vllm.tiers.policy import tiers_of
from inferscale_vllm.writer import pending_keys

logger = logging.getLogger(__name__)


def make_scheduler(
    vllm_config: Any, kv_cache_config: Any, settings: Settings, state: EngineState
) -> Scheduler:
    """The scheduler's half of one engine. Notes in `state` why it cannot inject, or that it can."""
    reason = unsupported(vllm_config, kv_cache_config)
    banks: list[Bank] = []
    try:
        banks = [settings.open_bank(rank) for rank in range(settings.num_ranks)]
    except BankRefused as refusal:
        reason = reason or str(refusal)
    state.note("unsupported", reason)
    if reason:
        logger.warning("InferScale: injection is off: %s", reason)
    if settings.secret is None:
        logger.warning(
            "InferScale: no shared secret in the environment; all operations are refused"
        )
    reporter = Reporter(state)
    hash_function = compat.block_hash_function(vllm_config)
    planner = Planner(
        banks=banks,
        state=state,
        reporter=reporter,
        hash_function=hash_function,
        unsupported=reason,
    )
    return Scheduler(
        planner=planner,
        reporter=reporter,
        secret=settings.secret,
        pending=lambda: pending_keys([state], settings.num_ranks),
        group_block_sizes=[g.kv_cache_spec.block_size for g in kv_cache_config.kv_cache_groups],
        step_bytes=settings.inject_step_bytes,
        tiers=tiers_of(state, settings.num_ranks, settings.inject_step_bytes),
        forgetter=Forgetter(
            log=settings.open_forgotten(),
            headers=planner.headers,
            hash_function=hash_function,
            reporter=reporter,
        ),
    )
