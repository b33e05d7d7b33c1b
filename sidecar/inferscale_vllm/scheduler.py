"""The scheduler's half: decides what is injected and captured, and never promises what the bank
cannot keep.

Owns the plans of live requests. vLLM asks `match` again after every preemption, so a plan stays
until its request finishes, and everything it says can be said again. Contract: vLLM
`KVConnectorBase_V1`, scheduler side.
"""

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np

from inferscale.protocol.engine import Capture, EngineReport
from inferscale_vllm import support
from inferscale_vllm.bank import Bank, ItemHeader
from inferscale_vllm.metadata import Load, Slice, StepMetadata
from inferscale_vllm.operation import Build, Inject, Refused, parse
from inferscale_vllm.plan import (
    Plan,
    Span,
    clip,
    find_chain,
    item_spans,
    prefix_key,
    prefix_starts,
    segments,
)
from inferscale_vllm.state import EngineState
from inferscale_vllm.taint import taint

WHOLE_PREFIX_TOKENS = 512
"""A prefix up to this long is kept whole in the bank; of a longer one only the tail (see
`prefix_starts`)."""


class Scheduler:
    """Plans for one engine.

    Args:
        banks: one per worker rank; an item counts as present only if all hold it.
        state: where reports go and where the switch is read.
        secret: shared with the sidecar.
        group_block_sizes: tokens per block of each KV cache group.
        hash_function: vLLM's block hash function.
        unsupported: why this engine cannot inject, or None.
    """

    def __init__(
        self,
        *,
        banks: list[Bank],
        state: EngineState,
        secret: str | None,
        group_block_sizes: list[int],
        hash_function: Any,
        unsupported: str | None,
    ) -> None:
        self._banks = banks
        self._state = state
        self._secret = secret
        self._group_block_sizes = group_block_sizes
        self._hash_function = hash_function
        self._unsupported = unsupported
        self._plans: dict[str, Plan] = {}
        self._requests: dict[str, Any] = {}
        self._prompts: dict[str, np.ndarray] = {}
        self._pending = StepMetadata()
        self._cache_manager: Any = None
        self._counters: Counter[str] = Counter()
        self._declined: Counter[str] = Counter()

    def bind(self, kv_cache_manager: Any) -> None:
        self._cache_manager = kv_cache_manager

    @property
    def _hash_block_size(self) -> int:
        size: int = self._cache_manager.block_pool.hash_block_size
        return size

    # -- arrival

    def arrive(self, request: Any) -> None:
        """Plans a new request, and renames its cache blocks if approximate KV may go into them."""
        try:
            operation = parse(request.kv_transfer_params, secret=self._secret)
        except Refused as refusal:
            self._declined[refusal.reason] += 1
            self._state.note("counters", self._counter_note())
            return
        if operation is None:
            return
        op = "build" if isinstance(operation, Build) else "inject"
        plan = Plan(operation.request_id, op, request.num_prompt_tokens)
        self._plans[request.request_id] = plan
        self._requests[request.request_id] = request
        try:
            if isinstance(operation, Build):
                self._plan_build(plan, operation, request)
            else:
                self._plan_inject(plan, operation, request)
        except Refused as refusal:
            plan.reason = refusal.reason

    def _prompt(self, request: Any) -> np.ndarray:
        prompt = self._prompts.get(request.request_id)
        if prompt is None:
            prompt = np.asarray(request.prompt_token_ids, np.int32)
            self._prompts[request.request_id] = prompt
        return prompt

    def _plan_build(self, plan: Plan, build: Build, request: Any) -> None:
        self._refuse_if_off(request)
        prompt = self._prompt(request)
        wanted = list(build.captures)
        if build.prefix_end is not None:
            wanted += self._prefix_captures(build.salt, prompt, build.prefix_end)
        if any(c.end > len(prompt) for c in wanted):
            raise Refused("malformed", "a capture ends behind the prompt")
        plan.wanted = [c.key for c in wanted]
        present = self._headers(plan.wanted)
        plan.captures = [c for c, header in zip(wanted, present, strict=True) if header is None]

    def _prefix_captures(self, salt: str, prompt: np.ndarray, end: int) -> list[Capture]:
        starts = prefix_starts(end, self._hash_block_size, WHOLE_PREFIX_TOKENS)
        return [Capture(prefix_key(salt, prompt[:end], start), start, end) for start in starts]

    def _plan_inject(self, plan: Plan, inject: Inject, request: Any) -> None:
        self._refuse_if_off(request)
        if not inject.items:
            raise Refused("no_items")
        prompt = self._prompt(request)
        items = self._leading_items(inject.items)
        start, count = find_chain(prompt, [header.token_ids for header in items])
        if not count:
            raise Refused("items_not_in_prompt")
        spans = item_spans(start, inject.items[:count], items[:count])
        if count < len(inject.items):
            plan.reason = "items_missing" if count == len(items) else "items_not_in_prompt"
        exact = self._cache_manager.get_computed_blocks(request)[1]
        if exact >= spans[-1].end:
            raise Refused("native_hit")
        spans = self._with_prefix(plan, inject.salt, prompt, spans, exact)
        plan.spans = clip([s for s in spans if s.end > exact], len(prompt) - 1)
        taint(
            request,
            plan.spans,
            start=exact,
            block_size=self._hash_block_size,
            hash_function=self._hash_function,
        )

    def _refuse_if_off(self, request: Any) -> None:
        if self._unsupported:
            raise Refused("unsupported_model", self._unsupported)
        if not self._state.get_note("injection", {"enabled": True})["enabled"]:
            raise Refused("disabled")
        if reason := support.forced_off(request):
            raise Refused(reason)

    def _leading_items(self, keys: tuple[str, ...]) -> list[ItemHeader]:
        """Headers of the longest run of intact items from the first on."""
        found: list[ItemHeader] = []
        for key, header in zip(keys, self._headers(keys), strict=True):
            if header is None or not self._is_intact(key, header):
                break
            found.append(header)
        if not found:
            raise Refused("items_missing")
        return found

    def _is_intact(self, key: str, header: ItemHeader) -> bool:
        """Whether an item's KV is whole on every rank; a broken one is retired, to be rebuilt."""
        intact = all(bank.is_intact(key, header) for bank in self._banks)
        if not intact:
            self._counters["corrupt_items"] += 1
            for bank in self._banks:
                bank.retire([key])
        return intact

    def _headers(self, keys: Any) -> list[ItemHeader | None]:
        """Headers of rank 0, None where any rank lacks the item."""
        columns = [bank.headers(keys) for bank in self._banks]
        return [row[0] if all(row) else None for row in zip(*columns, strict=True)]

    def _with_prefix(
        self, plan: Plan, salt: str, prompt: np.ndarray, spans: tuple[Span, ...], exact: int
    ) -> tuple[Span, ...]:
        """Puts the captured tokens before the first item in front; plans their capture if there are
        none."""
        end = spans[0].start
        if exact >= end:
            return spans
        captures = self._prefix_captures(salt, prompt, end)
        for capture, header in zip(captures, self._headers([c.key for c in captures]), strict=True):
            if header and capture.start <= exact and self._is_intact(capture.key, header):
                return (Span(capture.start, end, capture.key, capture.start), *spans)
        plan.captures = [c for c in captures if c.start >= exact]
        raise Refused("prefix_not_captured")

    # -- admission

    def match(self, request: Any, num_computed_tokens: int) -> int:
        """Tokens behind the local hit that will be injected. Same answer however often it is
        asked."""
        plan = self._plans.get(request.request_id)
        if plan is None or not plan.spans or request.skip_reading_prefix_cache:
            return 0
        if num_computed_tokens >= plan.end:
            plan.reason = plan.reason or "native_hit"
            return 0
        if num_computed_tokens < plan.start:
            plan.reason = "prefix_not_captured"
            return 0
        live = [s for s in plan.spans if s.end > num_computed_tokens]
        if not all(self._headers([s.key for s in live])):
            plan.reason = "items_missing"
            return 0
        return plan.end - num_computed_tokens

    def admit(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Turns the promise into this step's loads, and reports."""
        plan = self._plans.get(request.request_id)
        if plan is None:
            return
        if num_external_tokens:
            self._pending.loads.append(self._load(plan, request, blocks, num_external_tokens))
        if not plan.is_admitted:
            plan.is_admitted = True
            plan.injected = num_external_tokens
            plan.native = self._local_tokens(request, num_external_tokens)
            self._count(plan)
            self._write_report(plan)

    def _local_tokens(self, request: Any, num_external_tokens: int) -> int:
        stats = request.prefill_stats
        if stats is not None:
            return int(stats.num_local_cached_tokens)
        return max(0, int(request.num_computed_tokens) - num_external_tokens)

    def _load(self, plan: Plan, request: Any, blocks: Any, num_tokens: int) -> Load:
        start = plan.end - num_tokens
        block_ids = blocks.get_block_ids()
        slots = [
            slots_of(ids, size, start, plan.end)
            for ids, size in zip(block_ids, self._group_block_sizes, strict=True)
        ]
        first = start // self._group_block_sizes[0]
        last = -(-plan.end // self._group_block_sizes[0])
        return Load(
            request_id=plan.request_id,
            segments=segments(plan.spans, start, plan.end),
            slots=slots,
            block_ids=list(block_ids[0][first:last]),
        )

    def abandon(self, blocks: Any) -> None:
        """Marks a request's blocks as impossible to fill (a bug of ours after a promise)."""
        self._pending.failed_block_ids.extend(blocks.get_block_ids()[0])

    # -- each step

    def step(self, scheduler_output: Any) -> StepMetadata:
        """This step's work for the workers."""
        metadata, self._pending = self._pending, StepMetadata()
        state = scheduler_output.kv_connector_block_state
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            plan = self._plans.get(request_id)
            if plan is None or not plan.captures:
                continue
            request = self._requests[request_id]
            computed = request.num_computed_tokens
            block_ids = state.get_block_ids(request_id)
            metadata.slices += self._slices(
                request, plan, computed, computed + num_tokens, block_ids
            )
        return metadata

    def _slices(
        self, request: Any, plan: Plan, start: int, end: int, block_ids: Any
    ) -> list[Slice]:
        prompt = self._prompt(request)
        found = []
        for capture in plan.captures:
            low, high = max(capture.start, start), min(capture.end, end)
            if low >= high:
                continue
            slots = [
                slots_of(ids, size, low, high)
                for ids, size in zip(block_ids, self._group_block_sizes, strict=True)
            ]
            found.append(
                Slice(
                    request_id=request.request_id,
                    key=capture.key,
                    offset=low - capture.start,
                    num_item_tokens=capture.end - capture.start,
                    position=capture.start,
                    token_ids=prompt[capture.start : capture.end],
                    slots=slots,
                )
            )
        return found

    # -- end

    def finish(self, request: Any) -> dict[str, Any] | None:
        """Forgets the request. Returns what goes into the response's `kv_transfer_params`."""
        request_id = request.request_id
        plan = self._plans.pop(request_id, None)
        self._requests.pop(request_id, None)
        self._prompts.pop(request_id, None)
        if plan is None:
            return None
        stored: tuple[str, ...] = ()
        if plan.op == "build":
            headers = self._headers(plan.wanted)
            stored = tuple(k for k, h in zip(plan.wanted, headers, strict=True) if h is not None)
            self._write_report(plan, stored)
        return {"inferscale": asdict(self._report(plan, stored))}

    def clear(self) -> None:
        """Takes every item out of service: the weights may have changed."""
        for bank in self._banks:
            bank.retire(bank.keys())

    def fail(self, request: Any) -> None:
        """Notes a bug of ours: the request goes on as plain text."""
        plan = self._plans.get(request.request_id)
        self._declined["error"] += 1
        if plan is not None:
            plan.spans, plan.captures, plan.reason = (), [], "error"

    # -- reports

    def _count(self, plan: Plan) -> None:
        report = self._report(plan, ())
        if plan.op == "inject":
            self._counters["injected_tokens"] += report.injected
            self._counters["native_tokens"] += report.native
            self._counters["prefilled_tokens"] += report.prefilled
        else:
            self._counters["build_tokens"] += report.prompt
        if plan.reason:
            self._declined[plan.reason] += 1

    def _counter_note(self) -> dict[str, Any]:
        return {**self._counters, "declined": dict(self._declined)}

    def _report(self, plan: Plan, stored: tuple[str, ...]) -> EngineReport:
        return EngineReport(
            request_id=plan.request_id,
            op=plan.op,
            prompt=plan.num_prompt_tokens,
            injected=plan.injected,
            native=plan.native,
            prefilled=plan.num_prompt_tokens - plan.injected - plan.native,
            reason=plan.reason,
            stored=stored,
        )

    def _write_report(self, plan: Plan, stored: tuple[str, ...] = ()) -> None:
        self._state.report(
            plan.request_id, asdict(self._report(plan, stored)), self._counter_note()
        )


def slots_of(block_ids: list[int], block_size: int, start: int, end: int) -> np.ndarray:
    """Cache slots (int64 [end - start]) of a request's tokens [start, end); -1 in a dropped block.

    Block 0 is vLLM's null block: a sliding-window group points there for tokens it no longer holds.
    """
    tokens = np.arange(start, end, dtype=np.int64)
    blocks = np.asarray(block_ids, np.int64)[tokens // block_size]
    return np.where(blocks == 0, -1, blocks * block_size + tokens % block_size)
