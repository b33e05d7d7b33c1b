"""The scheduler's half: keeps the plans of live requests, and promises only what the bank can keep.

vLLM asks `match` again after every preemption, so a plan stays until its request finishes, and
everything it says can be said again. Contract: vLLM `KVConnectorBase_V1`, scheduler side.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from inferscale_vllm import compat
from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.forget import Forgetter
from inferscale_vllm.metadata import Load, StepMetadata
from inferscale_vllm.operation import Build, Inject, Operation, Refused, parse
from inferscale_vllm.pace import StepBudget, stored_bytes
from inferscale_vllm.plan import Plan, Segment, Span, segments
from inferscale_vllm.planner import Planner
from inferscale_vllm.report import Reporter
from inferscale_vllm.slices import slices, slots_in_groups
from inferscale_vllm.tiers.policy import Tiers

logger = logging.getLogger(__name__)


class Scheduler:
    """Plans of one engine's requests.

    Args:
        planner: makes plans.
        reporter: publishes what became of them.
        secret: shared with the sidecar; None: every operation is refused.
        group_block_sizes: tokens per block of each KV cache group.
        pending: which captured items are on their way to the bank.
        step_bytes: most that one step injects; 0: no limit.
        tiers: what the workers hold in faster places than the bank; None: nothing.
        forgetter: takes what is deleted out of vLLM's prefix cache; None: nobody does.
    """

    def __init__(
        self,
        *,
        planner: Planner,
        reporter: Reporter,
        secret: str | None,
        group_block_sizes: list[int],
        pending: Callable[[], set[str]] = set,
        step_bytes: int = 0,
        tiers: Tiers | None = None,
        forgetter: Forgetter | None = None,
    ) -> None:
        self._planner = planner
        self._reporter = reporter
        self._secret = secret
        self._group_block_sizes = group_block_sizes
        self._pending_keys = pending
        self._budget = StepBudget(step_bytes)
        self._tiers, self._forgetter = tiers, forgetter
        self._plans: dict[str, Plan] = {}
        self._requests: dict[str, Any] = {}
        self._pending = StepMetadata()

    def bind(self, kv_cache_manager: Any) -> None:
        self._planner.bind(kv_cache_manager)
        if self._forgetter:
            self._forgetter.bind(kv_cache_manager.block_pool, len(self._group_block_sizes))

    def arrive(self, request: Any) -> None:
        """Plans a new request, and renames its cache blocks if injected KV may go into them."""
        operation = self._operation(request)
        forgetter = self._forgetter
        spans: tuple[Span, ...] = ()
        if forgetter:  # first: the plan depends on what is in the cache
            forgetter.catch_up()
            forgetter.arrive(request, operation)
        try:
            if isinstance(operation, (Build, Inject)):
                spans = self._plan(operation, request).spans
        finally:
            if forgetter:
                forgetter.planned(request.request_id, spans)

    def _operation(self, request: Any) -> Operation | None:
        try:
            return parse(request.kv_transfer_params, secret=self._secret)
        except Refused as refusal:
            self._reporter.refused(refusal.reason)
            return None

    def _plan(self, operation: Build | Inject, request: Any) -> Plan:
        prompt = np.asarray(request.prompt_token_ids or (), np.int32)
        plan = self._planner.plan(operation, request, prompt)
        self._plans[request.request_id] = plan
        self._requests[request.request_id] = request
        if self._tiers:  # so that copies begin with the next step, whoever is served in it
            self._tiers.want(request.request_id, self._live(plan.spans))
        return plan

    def match(self, request: Any, num_computed_tokens: int) -> int | None:
        """Tokens behind the local hit that will be injected. Asked twice, answered twice.

        None: not in this step; vLLM asks again in the next one.
        """
        plan = self._plans.get(request.request_id)
        if plan is None:
            return 0
        if not plan.is_admitted:
            plan.native = num_computed_tokens
        if not plan.spans or request.skip_reading_prefix_cache:
            return 0
        if num_computed_tokens >= plan.end:
            plan.reason = plan.reason or "native_hit"
            return 0
        if num_computed_tokens < plan.start:
            plan.reason = "prefix_not_captured"
            return 0
        self._planner.promise(plan)
        if self._must_wait(request, plan):  # first: all who wait are asked in every step
            self._reporter.delayed(plan)
            return None
        pieces = segments(plan.spans, num_computed_tokens, plan.end)
        headers = self._live(pieces)
        if not headers.keys() >= {piece.key for piece in pieces}:
            plan.reason = "items_missing"
            return 0
        plan.step_bytes = stored_bytes(pieces, headers)
        if not self._budget.allows(plan.step_bytes):
            self._reporter.delayed(plan)
            return None
        return plan.end - num_computed_tokens

    def _live(self, pieces: Sequence[Span | Segment]) -> dict[str, ItemHeader]:
        """Headers by key of those items that are in service."""
        keys = [piece.key for piece in pieces]
        return {k: h for k, h in zip(keys, self._planner.headers(keys), strict=True) if h}

    def _must_wait(self, request: Any, plan: Plan) -> bool:
        """Whether a later step serves the request better than the one that is being made."""
        is_ready = not self._tiers or self._tiers.is_ready(request.request_id)
        return not is_ready or not self._budget.allows(plan.step_bytes)

    def admit(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Turns the promise into this step's loads, and reports."""
        plan = self._plans.get(request.request_id)
        if plan is None:
            return
        if self._tiers:
            self._tiers.admitted(request.request_id)
        if num_external_tokens:
            self._pending.loads.append(self._load(plan, blocks, num_external_tokens))
            self._budget.spend(plan.step_bytes)
        if not plan.is_admitted:
            plan.is_admitted = True
            plan.injected = num_external_tokens
            self._reporter.admitted(plan)

    def _load(self, plan: Plan, blocks: Any, num_tokens: int) -> Load:
        start = plan.end - num_tokens
        block_ids = blocks.get_block_ids()
        first = start // self._group_block_sizes[0]
        last = -(-plan.end // self._group_block_sizes[0])
        return Load(
            request_id=plan.request_id,
            segments=segments(plan.spans, start, plan.end),
            slots=slots_in_groups(block_ids, self._group_block_sizes, start, plan.end),
            block_ids=list(block_ids[0][first:last]),
        )

    def abandon(self, blocks: Any) -> None:
        """Marks a request's blocks as impossible to fill (a bug of ours after a promise)."""
        self._pending.failed_block_ids.extend(blocks.get_block_ids()[0])

    def step(self, scheduler_output: Any) -> StepMetadata:
        """This step's work for the workers. Never raises: its loads are promises."""
        metadata, self._pending = self._pending, StepMetadata()
        self._budget.renew()
        self._reporter.stepped(len(scheduler_output.num_scheduled_tokens))
        self._look_around()
        self._add_copies(metadata)
        metadata.num_tokens = sum(scheduler_output.num_scheduled_tokens.values())
        state = scheduler_output.kv_connector_block_state
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            plan = self._plans.get(request_id)
            if plan is None or not plan.captures:
                continue
            try:
                request, block_ids = self._requests[request_id], state.get_block_ids(request_id)
                sizes = self._group_block_sizes
                metadata.slices += slices(plan, request, num_tokens, block_ids, sizes)
            except Exception:  # capture is optional, this step's loads are not
                logger.exception("InferScale: capture of request %s was given up", request_id)
                plan.captures = []
        return metadata

    def _add_copies(self, metadata: StepMetadata) -> None:
        try:
            if self._tiers:
                metadata.fetches, metadata.lifts = self._tiers.step()
        except Exception:  # everything is in the bank as well
            logger.exception("InferScale: the arenas are given up")
            self._tiers = None

    def _look_around(self) -> None:
        try:
            if self._forgetter:
                self._forgetter.catch_up()
            self._planner.record_uses()
        except Exception:  # both are tried again: at the next arrival, in the next step
            logger.exception("InferScale: deletions or last uses were not looked after")

    def finish(self, request: Any) -> dict[str, Any] | None:
        """Forgets the request. Returns what goes into the response's `kv_transfer_params`."""
        if self._forgetter:
            self._forgetter.finish(request)
        plan = self._plans.pop(request.request_id, None)
        self._requests.pop(request.request_id, None)
        if plan is None:
            return None
        if self._tiers:
            self._tiers.release(request.request_id)
        if compat.ended_by_itself(request):  # else a load may be under way: the promise runs out
            self._planner.release(plan)
        report = self._reporter.of(plan)
        if plan.op == "build":
            stored, pending = self._kept(plan.wanted)
            report = replace(report, stored=stored, pending=pending)
            self._reporter.write(report)
        return {"inferscale": asdict(report)}

    def _kept(self, keys: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Which of these keys the bank holds, and which are being written to it."""
        pending = self._pending_keys()  # first: what is neither here nor in the bank then is lost
        stored = tuple(k for k, h in zip(keys, self._planner.headers(keys), strict=True) if h)
        return stored, tuple(k for k in keys if k in pending and k not in stored)

    def fail(self, request: Any) -> None:
        """Notes a bug of ours: the request goes on as plain text."""
        plan = self._plans.get(request.request_id)
        self._reporter.failed()
        if plan is not None:
            plan.spans, plan.captures, plan.reason = (), [], "error"

    def clear(self) -> None:
        """Takes every item out of service: the weights may have changed."""
        self._planner.clear()
