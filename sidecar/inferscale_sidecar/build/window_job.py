"""Builds one window from its items to their records in the store, whatever goes wrong on the way.

Owns retries of single items (back-off, halving a window that the engine refuses). Invariant: an
item is recorded as built only after the engine said that the bank holds it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferscale_sidecar.build.ports import BuildRecorder, BuildStore
from inferscale_sidecar.build.renew import Renewal
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.build.window import BuildPrompt, Planned, WindowLimits, plan_window
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.core import BuildItem, Tenant
from inferscale_sidecar.engine.base import Engine, EngineError

log = logging.getLogger(__name__)

FIRST_BACKOFF_S, MAX_BACKOFF_S = 1.0, 300.0
NOT_KEPT = "the engine did not keep the KV; its bank may be full"

ItemId = tuple[str, int]
"""Memory id and version."""


@dataclass
class Counts:
    built: int = 0
    failed: int = 0
    last_error: str | None = None


class WindowJob:
    """Runs windows. One instance per queue: it remembers which items have to wait.

    Args:
        store, engine, lists, recorder: as in `BuildQueue`.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        store: BuildStore,
        engine: Engine,
        lists: ListTokenizer,
        recorder: BuildRecorder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._engine, self._lists = store, engine, lists
        self._recorder, self._clock = recorder, clock
        self._waiting: dict[ItemId, tuple[float, float]] = {}  # not before, last delay
        self._seen: dict[ItemId, float] = {}
        self.counts = Counts()

    def saw(self, pending: Sequence[BuildItem]) -> None:
        """These are pending now; what is remembered of others is dropped."""
        now = self._clock()
        names = [(item.memory_id, item.version) for item in pending]
        self._seen = {name: self._seen.get(name, now) for name in names}
        self._waiting = {n: self._waiting[n] for n in names if n in self._waiting}

    def is_due(self, item: BuildItem) -> bool:
        """Whether an item that failed has waited long enough."""
        return self._clock() >= self._waiting.get((item.memory_id, item.version), (0.0, 0.0))[0]

    async def run(self, fingerprint: str, items: Sequence[BuildItem], limits: WindowLimits) -> None:
        """Builds these items of one owner; those that do not fit stay pending.

        Raises:
            EngineUnavailable: nothing is changed; the items stay pending.
        """
        tenant = await self._store.get_tenant(items[0].tenant_id)
        if tenant is None:
            await self._fail(fingerprint, items, "its tenant is gone")
            return
        previous = await self._store.previous_items(
            tenant.id,
            items[0].owner,
            before=items[0],
            limit=limits.encode_policy.count("recent"),
        )
        prompt = await self._plan(tenant, items, previous, limits)
        for item, reason in prompt.refused:
            await self._fail(fingerprint, [item], reason)
        if prompt.planned:
            await self._send(fingerprint, tenant, prompt, limits)

    async def renew(self, fingerprint: str, renewal: Renewal, limits: WindowLimits) -> None:
        """Encodes items again in better company. What fails keeps the KV that it has.

        Raises:
            EngineUnavailable: nothing is changed.
        """
        tenant = await self._store.get_tenant(renewal.items[0].tenant_id)
        if tenant is None:
            return
        prompt = await self._plan(tenant, renewal.items, renewal.behind, limits)
        if not prompt.planned:
            return
        try:
            stored = await send_build(
                self._engine, prompt.ids, tag=tenant_tag(tenant), captures=prompt.captures
            )
        except EngineError as error:
            log.warning("%d items not encoded again: %s", len(prompt.planned), error)
            return
        await self._record(fingerprint, [p for p in prompt.planned if p.capture.key in stored])

    async def _plan(
        self,
        tenant: Tenant,
        items: Sequence[BuildItem],
        previous: Sequence[BuildItem],
        limits: WindowLimits,
    ) -> BuildPrompt:
        policy = limits.encode_policy
        similar = await self._store.similar_items(
            # some may be among the previous ones as well
            items,
            limit=policy.count("similar") and policy.total,
        )
        return await asyncio.to_thread(
            plan_window,
            items,
            previous,
            tenant=tenant,
            model=self._engine.model,
            lists=self._lists,
            limits=limits,
            similar=similar,
        )

    async def _send(
        self, fingerprint: str, tenant: Tenant, prompt: BuildPrompt, limits: WindowLimits
    ) -> None:
        items = [p.item for p in prompt.planned]
        await self._store.mark_building(fingerprint, items)
        try:
            stored = await send_build(
                self._engine, prompt.ids, tag=tenant_tag(tenant), captures=prompt.captures
            )
        except EngineError as error:
            self._recorder.window("failed")
            await self._refused(fingerprint, items, limits, error)
            return
        self._recorder.window("ok")
        await self._record(fingerprint, [p for p in prompt.planned if p.capture.key in stored])
        lost = [p.item for p in prompt.planned if p.capture.key not in stored]
        if lost:  # not their fault: they are never given up
            await self._fail(fingerprint, lost, NOT_KEPT, counts=False)

    async def _refused(
        self,
        fingerprint: str,
        items: Sequence[BuildItem],
        limits: WindowLimits,
        error: EngineError,
    ) -> None:
        """One bad item must not keep its neighbours from being built: halve until it is alone."""
        if len(items) == 1:
            await self._fail(fingerprint, items, str(error))
            return
        half = len(items) // 2
        for part in (items[:half], items[half:]):
            await self.run(fingerprint, part, limits)

    async def _record(self, fingerprint: str, built: Sequence[Planned]) -> None:
        if not built:
            return
        records = [p.stored(fingerprint) for p in built]
        vanished = await self._store.put_kv_items(records)
        if vanished:
            await self._engine.delete([kv.key for kv in vanished])
        self.counts.built += len(records) - len(vanished)
        now = self._clock()
        for planned in built:
            name = (planned.item.memory_id, planned.item.version)
            self._recorder.injectable(now - self._seen.get(name, now))

    async def _fail(
        self, fingerprint: str, items: Sequence[BuildItem], error: str, *, counts: bool = True
    ) -> None:
        log.warning("%d items not built: %s", len(items), error)
        await self._store.mark_failed(fingerprint, items, error, counts=counts)
        self.counts.failed += len(items)
        self.counts.last_error = error
        for item in items:
            _, delay = self._waiting.get((item.memory_id, item.version), (0.0, FIRST_BACKOFF_S / 4))
            delay = min(MAX_BACKOFF_S, delay * 4)
            self._waiting[item.memory_id, item.version] = (self._clock() + delay, delay)
