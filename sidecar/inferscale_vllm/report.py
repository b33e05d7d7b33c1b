"""Says what became of each request: reports for the sidecar, counters for the operator.

Owns the counting; the numbers go to the engine's shared state, where the control plane reads them.
"""

from collections import Counter
from dataclasses import asdict
from typing import Any

from inferscale.protocol.engine import EngineReport
from inferscale_vllm.plan import Plan
from inferscale_vllm.state import EngineState

FORGOTTEN_NOTE = "forgotten"
"""Up to which entry of the log of deletions an engine's prefix cache is clean."""


class Reporter:
    """Counts and reports. One per scheduler."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._totals: Counter[str] = Counter()
        self._declined: Counter[str] = Counter()

    def refused(self, reason: str) -> None:
        """An operation that was not understood, so there is no request to report on."""
        self._declined[reason] += 1
        self._state.note("counters", self._counters())

    def stepped(self, num_requests: int) -> None:
        """A step computes so many requests."""
        self._totals["crowded_steps"] += num_requests > 1

    def corrupt(self) -> None:
        """An item failed its checksum."""
        self._totals["corrupt_items"] += 1

    def looked_up(self, found: int, missing: int) -> None:
        """A request asked for items: so many were in the bank."""
        self._totals["bank_hits"] += found
        self._totals["bank_misses"] += missing

    def failed(self) -> None:
        """A bug of ours."""
        self._declined["error"] += 1

    def forgot(self, num_blocks: int, entry: int) -> None:
        """All that was deleted up to this entry of the log has left vLLM's prefix cache: so many
        blocks of it."""
        self._totals["forgotten_blocks"] += num_blocks
        self._state.note("counters", self._counters())
        self._state.note(FORGOTTEN_NOTE, entry)

    def delayed(self, plan: Plan) -> None:
        """A request was put off to a later step; counted once."""
        self._totals["delayed_requests"] += not plan.is_delayed
        plan.is_delayed = True

    def admitted(self, plan: Plan) -> None:
        """A request got its blocks: what was promised is final now."""
        report = self.of(plan)
        if plan.op == "inject":
            self._totals["injected_tokens"] += report.injected
            self._totals["native_tokens"] += report.native
            self._totals["prefilled_tokens"] += report.prefilled
        else:
            self._totals["build_tokens"] += report.prompt
        if plan.reason:
            self._declined[plan.reason] += 1
        self.write(report)

    def write(self, report: EngineReport) -> None:
        """Publishes a report."""
        self._state.report(report.request_id, asdict(report), self._counters())

    def of(self, plan: Plan) -> EngineReport:
        """The report of a plan as it stands."""
        return EngineReport(
            request_id=plan.request_id,
            op=plan.op,
            prompt=plan.num_prompt_tokens,
            injected=plan.injected,
            native=plan.native,
            prefilled=plan.num_prompt_tokens - plan.injected - plan.native,
            reason=plan.reason,
            crowded_steps=self._totals["crowded_steps"],
        )

    def _counters(self) -> dict[str, Any]:
        return {**self._totals, "declined": dict(self._declined)}
