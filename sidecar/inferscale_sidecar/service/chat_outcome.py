"""What follows from how the memory of a request was served: its report, metrics, and repairs.

Owns the consequences. What the engine missed is told to those who can mend it before the next
request; nothing here can fail a request that was answered.
"""

import asyncio
import json

from inferscale.protocol.chat import MemoryReport
from inferscale_sidecar.build.exact import LazyExactness
from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.service.chat_fields import encoded
from inferscale_sidecar.service.chat_ports import ChatRecorder, Suspects
from inferscale_sidecar.service.chat_report import (
    NATIVE_HIT,
    MemoryPlan,
    ReportBook,
    as_field,
    engine_report_in,
    report_of,
    without_engine_report,
)


class ChatOutcome:
    """See the module.

    Args:
        reports: where finished reports are kept.
        recorder: metrics.
        warmer, suspects, lazy: as in `ChatService`.
    """

    def __init__(
        self,
        reports: ReportBook,
        recorder: ChatRecorder,
        *,
        warmer: PrefixWarmer | None,
        suspects: Suspects | None,
        lazy: LazyExactness | None,
    ) -> None:
        self._reports, self._recorder = reports, recorder
        self._warmer, self._suspects, self._lazy = warmer, suspects, lazy
        self._background: set[asyncio.Task[None]] = set()

    async def whole(self, tenant: Tenant, plan: MemoryPlan, answer: bytes, seconds: float) -> bytes:
        """The complete answer with the report in it."""
        body = json.loads(answer)
        usage = body.get("usage")
        engine = engine_report_in(body)
        report = report_of(plan, engine, usage) if engine else await self._reports.ask(plan, usage)
        self._settle(tenant, plan, report)
        self._recorder.duration(report.mode, seconds)
        return encoded({**without_engine_report(body), "memory": as_field(report)})

    def streamed(self, tenant: Tenant, plan: MemoryPlan, first_s: float, seconds: float) -> None:
        """A stream has ended. Returns at once."""
        task = asyncio.create_task(self._settle_later(tenant, plan, first_s, seconds))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _settle_later(
        self, tenant: Tenant, plan: MemoryPlan, first_s: float, seconds: float
    ) -> None:
        report = await self._reports.ask(plan)
        self._settle(tenant, plan, report)
        self._recorder.ttft(report.mode, first_s)
        self._recorder.duration(report.mode, seconds)

    def _settle(self, tenant: Tenant, plan: MemoryPlan, report: MemoryReport) -> None:
        """Metrics, and the consequences of what the engine missed."""
        self._reports.close(plan, report)
        if report.tokens is not None:
            for source, count in report.tokens.model_dump().items():
                self._recorder.tokens(source, count)
        if report.reason not in (None, NATIVE_HIT):
            self._recorder.fallback(str(report.reason))
        if report.reason == "prefix_not_captured" and self._warmer:
            self._warmer.forget(tenant, plan.prefix_ids)
        if self._lazy and plan.rendering and report.mode in ("injected", "partial"):
            self._lazy.used(plan.rendering)
        if report.reason == "items_missing" and self._suspects:
            self._suspects.suspect(list(plan.keys))
