"""Makes the plan of a new request: what the bank can serve of it, and what of it is to be captured.

Owns the questions to the bank. Invariant: a plan names only items that every rank holds whole, and
the request's cache blocks are renamed before anyone looks them up.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from inferscale.protocol.engine import Capture
from inferscale_vllm import support
from inferscale_vllm.bank import Bank, ItemHeader, UseLog, tenant_of
from inferscale_vllm.bank.promises import PROMISE_S
from inferscale_vllm.cost import CostModel
from inferscale_vllm.fingerprint import adapter_of
from inferscale_vllm.operation import Build, Inject, Refused
from inferscale_vllm.plan import (
    Plan,
    Span,
    clip,
    find_chain,
    item_spans,
    prefix_key,
    prefix_starts,
)
from inferscale_vllm.report import Reporter
from inferscale_vllm.state import EngineState
from inferscale_vllm.taint import taint

WHOLE_PREFIX_TOKENS = 512
"""A prefix up to this long is kept whole in the bank; of a longer one only the tail (see
`prefix_starts`)."""


class Planner:
    """Plans for one engine.

    Args:
        banks: one per worker rank; an item counts as present only if all hold it.
        state: where the switch is read.
        reporter: told about corrupt items.
        hash_function: vLLM's block hash function.
        unsupported: why this engine cannot inject, or None.
        cost: declines what would take longer than prefilling it.
    """

    def __init__(
        self,
        *,
        banks: list[Bank],
        state: EngineState,
        reporter: Reporter,
        hash_function: Any,
        unsupported: str | None,
        cost: CostModel | None = None,
    ) -> None:
        self._banks = banks
        self._state = state
        self._reporter = reporter
        self._hash_function = hash_function
        self._unsupported = unsupported
        self._uses = UseLog(banks[0].promises) if banks else None
        self._cost = cost or CostModel(state)
        self._cache_manager: Any = None

    def bind(self, kv_cache_manager: Any) -> None:
        self._cache_manager = kv_cache_manager

    @property
    def _block_size(self) -> int:
        size: int = self._cache_manager.block_pool.hash_block_size
        return size

    def plan(self, operation: Build | Inject, request: Any, prompt: np.ndarray) -> Plan:
        """The plan of a request; its `reason` says what of it is not carried out.

        Args:
            operation: what the sidecar asks for.
            request: vLLM's scheduler-side `Request`; its blocks may be renamed.
            prompt: its token ids, int32 [P].
        """
        op = "build" if isinstance(operation, Build) else "inject"
        plan = Plan(
            operation.request_id,
            op,
            len(prompt),
            tenant=tenant_of(operation.salt),
            adapter=adapter_of(request.lora_request),
        )
        try:
            self._refuse_if_off(request)
            if isinstance(operation, Build):
                self._plan_build(plan, operation, prompt)
            else:
                self._plan_inject(plan, operation, request, prompt)
                self.promise(plan)
        except Refused as refusal:
            plan.reason = refusal.reason
        return plan

    def headers(self, keys: Sequence[str]) -> list[ItemHeader | None]:
        """Headers of live items, of the rank that stores most; None where any rank lacks one."""
        if not self._banks:
            return [None] * len(keys)
        rows = zip(*(bank.headers(keys) for bank in self._banks), strict=True)
        found = ([header for header in row if header] for row in rows)
        return [
            max(row, key=lambda header: header.size_bytes) if len(row) == len(self._banks) else None
            for row in found
        ]

    def promise(self, plan: Plan) -> None:
        """Keeps the plan's items from being evicted for a while. Ask `headers` *afterwards* which
        of them are there to be kept."""
        now = time.monotonic()
        if not plan.spans or now < plan.renew_at:
            return
        plan.holder = plan.holder or secrets.token_bytes(16)
        self._banks[0].promises.make(plan.holder, {span.key for span in plan.spans})
        plan.renew_at = now + PROMISE_S / 2

    def release(self, plan: Plan) -> None:
        """The plan's request is over."""
        if plan.holder:
            self._banks[0].promises.take_back(plan.holder)

    def record_uses(self) -> None:
        """Tells the bank now and then which items were used."""
        if self._uses:
            self._uses.flush_if_due()

    def clear(self) -> None:
        """Takes every item out of service."""
        for bank in self._banks:
            bank.retire(bank.keys())

    def _refuse_if_off(self, request: Any) -> None:
        if self._unsupported:
            raise Refused("unsupported_model", self._unsupported)
        if not self._state.get_note("injection", {"enabled": True})["enabled"]:
            raise Refused("disabled")
        if reason := support.forced_off(request):
            raise Refused(reason)

    def _plan_build(self, plan: Plan, build: Build, prompt: np.ndarray) -> None:
        wanted = list(build.captures)
        if build.prefix_end is not None:
            wanted += self._prefix_captures(plan, build.salt, prompt, build.prefix_end)
        if any(c.end > len(prompt) for c in wanted):
            raise Refused("malformed", "a capture ends behind the prompt")
        plan.wanted = [c.key for c in wanted]
        present = self.headers(plan.wanted)
        plan.captures = [
            capture
            for capture, header in zip(wanted, present, strict=True)
            if header is None or header.adapter != plan.adapter
        ]

    def _plan_inject(self, plan: Plan, inject: Inject, request: Any, prompt: np.ndarray) -> None:
        if not inject.items:
            raise Refused("no_items")
        items = self._leading_items(inject.items, plan.adapter)
        start, count = find_chain(prompt, [header.token_ids for header in items])
        if not count:
            raise Refused("items_not_in_prompt")
        if self._uses:
            self._uses.add(inject.items[:count])
        spans = item_spans(start, inject.items[:count], items[:count])
        if count < len(inject.items):
            plan.reason = "items_missing" if count == len(items) else "items_not_in_prompt"
        exact = self._cache_manager.get_computed_blocks(request)[1]
        rest = spans[-1].end - exact
        if rest <= 0 or (inject.stays_exact and exact and rest < self._block_size):
            raise Refused("native_hit")
        spans = self._with_prefix(plan, inject.salt, prompt, spans, exact)
        spans = clip([s for s in spans if s.end > exact], len(prompt) - 1)
        if not (inject.always or self._cost.pays(spans[-1].end - exact)):
            raise Refused("costs_more")
        plan.spans = spans
        taint(
            request,
            plan.spans,
            start=exact,
            block_size=self._block_size,
            hash_function=self._hash_function,
        )

    def _leading_items(self, keys: Sequence[str], adapter: bytes) -> list[ItemHeader]:
        """Headers of the longest run of intact items of this adapter from the first on."""
        found: list[ItemHeader] = []
        headers = self.headers(keys)
        missing = headers.count(None)
        self._reporter.looked_up(len(keys) - missing, missing)
        for key, header in zip(keys, headers, strict=True):
            if header is None or not self._is_intact(key, header):
                break
            if header.adapter != adapter:
                if not found:
                    raise Refused("lora")
                break
            found.append(header)
        if not found:
            raise Refused("items_missing")
        return found

    def _is_intact(self, key: str, header: ItemHeader) -> bool:
        """Whether an item's KV is whole on every rank; a broken one is retired, to be rebuilt."""
        intact = all(bank.is_intact(key, header) for bank in self._banks)
        if not intact:
            self._reporter.corrupt()
            for bank in self._banks:
                bank.retire([key])
        return intact

    def _with_prefix(
        self, plan: Plan, salt: str, prompt: np.ndarray, spans: tuple[Span, ...], exact: int
    ) -> tuple[Span, ...]:
        """Puts the captured tokens before the first item in front of the items.

        If there are none, plans their capture and refuses: this one request is plain prefill.
        """
        end = spans[0].start
        if exact >= end:
            return spans
        captures = self._prefix_captures(plan, salt, prompt, end)
        for capture, header in zip(captures, self.headers([c.key for c in captures]), strict=True):
            if header and capture.start <= exact and self._is_intact(capture.key, header):
                if self._uses:
                    self._uses.add([capture.key])
                return (Span(capture.start, end, capture.key, capture.start), *spans)
        plan.captures = [c for c in captures if c.start >= exact]
        raise Refused("prefix_not_captured")

    def _prefix_captures(
        self, plan: Plan, salt: str, prompt: np.ndarray, end: int
    ) -> list[Capture]:
        starts = prefix_starts(end, self._block_size, WHOLE_PREFIX_TOKENS)
        keys = [prefix_key(salt, prompt[:end], start, plan.adapter) for start in starts]
        return [Capture(key, start, end) for key, start in zip(keys, starts, strict=True)]
