"""What happened to the memory of a request: remembered per request, told to its tenant only.

Owns the mapping from the engine's report to the client's, and the book of recent requests. Keeps
nothing on disk: reports are for looking at, not for keeping.
"""

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from inferscale.protocol.chat import MemoryReport, TokenCounts
from inferscale.protocol.engine import PARAMS_FIELD, EngineReport
from inferscale_sidecar.build.exact import Rendering
from inferscale_sidecar.build.prefix_finder import At
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import NotFound, SidecarError

MAX_REPORTS = 4096
NATIVE_HIT = "native_hit"


@dataclass(frozen=True)
class MemoryPlan:
    """What the sidecar decided about the memory of one request, before sending it.

    Attributes:
        request_id: names the report.
        handle: of the composition.
        items: number of items in the prompt.
        blocks: number of pinned blocks before them.
        injectable: how many of them may be injected (all but the exact suffix).
        keys: of those that are asked to be injected, in prompt order.
        item_keys: of all items, in prompt order; None for one without KV.
        prefix_ids: tokens before the first item, if known.
        reason: why nothing is asked of the engine; None if something is.
        rendering: of a handle, for its exact KV later on.
        position: where it stands; None if there is none.
    """

    request_id: str
    tenant_id: str
    handle: str | None
    items: int
    blocks: int = 0
    injectable: int = 0
    keys: tuple[str, ...] = ()
    item_keys: tuple[str | None, ...] = ()
    prefix_ids: tuple[int, ...] = ()
    reason: str | None = None
    rendering: Rendering | None = None
    position: At | None = None


def report_of(
    plan: MemoryPlan, engine: EngineReport | None, usage: Mapping[str, Any] | None = None
) -> MemoryReport:
    """Puts together what was planned, what the engine did, and what the answer says it cost.

    Args:
        plan: of the request.
        engine: the connector's report, if it has one.
        usage: the answer's `usage`: it counts tokens where the connector was not asked.
    """
    report = MemoryReport(
        request_id=plan.request_id,
        handle=plan.handle,
        items=plan.items,
        blocks=plan.blocks,
        mode="text",
        position=plan.position,
    )
    if engine is not None:
        report.tokens = TokenCounts(
            injected=engine.injected, native=engine.native, prefilled=engine.prefilled
        )
        report.reason = engine.reason
    else:
        report.tokens = _from_usage(usage)
        report.reason = plan.reason
    if plan.items == 0:
        report.mode, report.reason = "text" if plan.blocks else "none", None
    elif engine is not None and plan.keys:
        report.mode, report.reason = _mode(plan, engine)
    return report


def _mode(plan: MemoryPlan, engine: EngineReport) -> tuple[Any, str | None]:
    """Injected now, or found in vLLM's own cache because the same composition was served before."""
    was_served = engine.injected > 0 or engine.reason == NATIVE_HIT
    if not was_served:
        return "text", engine.reason
    is_whole = len(plan.keys) == plan.injectable and engine.reason in (None, NATIVE_HIT)
    reason = engine.reason if is_whole else engine.reason or "items_missing"
    return ("injected" if is_whole else "partial"), reason


def _from_usage(usage: Mapping[str, Any] | None) -> TokenCounts | None:
    """From the usage of any endpoint: Anthropic's `input_tokens` leave out what was cached."""
    if not usage:
        return None
    total = usage.get("prompt_tokens", usage.get("input_tokens"))
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    native = (details.get("cached_tokens") if isinstance(details, Mapping) else None) or 0
    cached = usage.get("cache_read_input_tokens")
    if isinstance(total, int) and isinstance(cached, int):
        total, native = total + cached, cached
    if not isinstance(total, int):
        return None
    return TokenCounts(injected=0, native=native, prefilled=total - native)


def engine_report_in(answer: Mapping[str, Any]) -> EngineReport | None:
    """The connector's report inside a non-streaming answer; None if the answer has none."""
    params = answer.get("kv_transfer_params")
    ours = params.get(PARAMS_FIELD) if isinstance(params, Mapping) else None
    if not isinstance(ours, Mapping):
        return None
    known = {k: v for k, v in ours.items() if k in EngineReport.__dataclass_fields__}
    try:
        lists = {name: tuple(known.get(name, ())) for name in ("stored", "pending")}
        return EngineReport(**{**known, **lists})
    except TypeError:  # an engine half of another version: the control plane has the report too
        return None


class ReportBook:
    """The last few thousand requests with memory, by id.

    Args:
        engine: asked for its half of a report when somebody looks.
        limit: how many are remembered.
    """

    def __init__(self, engine: Engine, *, limit: int = MAX_REPORTS) -> None:
        self._engine, self._limit = engine, limit
        self._plans: OrderedDict[str, MemoryPlan] = OrderedDict()
        self._done: dict[str, MemoryReport] = {}

    def open(self, plan: MemoryPlan) -> None:
        """Remembers a request from now on."""
        self._plans[plan.request_id] = plan
        while len(self._plans) > self._limit:
            old, _ = self._plans.popitem(last=False)
            self._done.pop(old, None)

    def close(self, plan: MemoryPlan, report: MemoryReport) -> None:
        """Keeps a finished report, so that it outlives the engine's memory of it."""
        if plan.request_id in self._plans:
            self._done[plan.request_id] = report

    async def ask(self, plan: MemoryPlan, usage: Mapping[str, Any] | None = None) -> MemoryReport:
        """The report as far as it is known now; never fails because of the engine."""
        engine: EngineReport | None = None
        if plan.reason is None and plan.items:
            with suppress(SidecarError):  # a missing report must not cost the caller its answer
                engine = await self._engine.report(plan.request_id)
        return report_of(plan, engine, usage)

    async def get(self, tenant: Tenant, request_id: str) -> MemoryReport:
        """A report by id.

        Raises:
            NotFound: unknown, too old, or another tenant's: told apart by nothing.
        """
        plan = self._plans.get(request_id)
        if plan is None or plan.tenant_id != tenant.id:
            raise NotFound(f"no report {request_id!r} among this key's recent requests with memory")
        if (done := self._done.get(request_id)) is not None:
            return done
        return await self.ask(plan)


def as_field(report: MemoryReport) -> dict[str, Any]:
    """The report as the `memory` field of an answer."""
    return report.model_dump(mode="json")


def without_engine_report(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what the connector said to us alone."""
    params = answer.get("kv_transfer_params")
    if isinstance(params, dict) and PARAMS_FIELD in params:
        rest = {k: v for k, v in params.items() if k != PARAMS_FIELD}
        return {**answer, "kv_transfer_params": rest or None}
    return answer
