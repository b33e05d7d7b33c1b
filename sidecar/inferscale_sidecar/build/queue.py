"""The build queue: takes what SQL says is pending, and has the engine encode it, window by window.

Owns the worker's life and its retries. Keeps no truth of its own: what is pending, built or to be
purged is in the store, so a restart resumes where it was. Invariants: no request ever waits for
it; a dead engine makes it wait, never fail; it touches items of one (tenant, owner) per window.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from inferscale_sidecar.build import bank
from inferscale_sidecar.build.flights import Flights
from inferscale_sidecar.build.ports import BuildRecorder, BuildStore, Silent
from inferscale_sidecar.build.renew import early_limit, renewal
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.build.window_job import WindowJob
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.core import BuildItem
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import Unavailable, Unsupported

log = logging.getLogger(__name__)

POLL_S = 5.0
MAX_WAIT_S = 30.0
_LOOK_AHEAD = 400


@dataclass(frozen=True)
class BuildProgress:
    """What the worker is doing.

    Counts are since its start; the store's `build_counts` has the totals.
    """

    is_connected: bool = False
    in_flight: int = 0
    built: int = 0
    failed: int = 0
    last_error: str | None = None


class BuildQueue:
    """See the module. `start` it once, `notify` it after every write, `stop` it at the end.

    Args:
        store: where items wait.
        engine: what encodes them.
        lists: tokenizer of lists for the engine's model.
        limits: size of a build request; `tokens` is cut to half of the engine's context at connect.
        max_in_flight: how many windows are in the engine at once.
        on_connect: called after each (re)connect, e.g. to forget which prefixes the engine knew.
        on_purge: told which keys have left the bank.
        recorder: metrics.
        poll_s: how often it looks by itself.
    """

    def __init__(
        self,
        store: BuildStore,
        engine: Engine,
        lists: ListTokenizer,
        *,
        limits: WindowLimits | None = None,
        max_in_flight: int = 2,
        on_connect: Callable[[], None] = lambda: None,
        on_purge: Callable[[Sequence[str]], None] = lambda keys: None,
        recorder: BuildRecorder | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self._store, self._engine = store, engine
        self._max_in_flight, self._poll_s = max_in_flight, poll_s
        self._limits = self._connected_limits = limits or WindowLimits()
        self._on_connect, self._on_purge = on_connect, on_purge
        self._recorder = recorder or Silent()
        self._job = WindowJob(store, engine, lists, self._recorder)
        self._fingerprint: str | None = None
        self._binder = bank.Binder(store, engine)
        self._suspects: set[str] = set()
        self._grown: set[tuple[str, str]] = set()  # (tenant id, owner) that new items came to
        self._flights = Flights()
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._is_stale = False  # something was written since this round's purge
        self._worker: asyncio.Task[None] | None = None
        self._last_error: str | None = None

    @property
    def progress(self) -> BuildProgress:
        """A snapshot."""
        done = self._job.counts
        return BuildProgress(
            is_connected=self._fingerprint is not None,
            in_flight=len(self._flights.busy),
            built=done.built,
            failed=done.failed,
            last_error=self._last_error or done.last_error,
        )

    def start(self) -> None:
        """Begins to work in the background."""
        if self._worker is None:
            self._worker = asyncio.create_task(self._run(), name="build-queue")

    async def stop(self) -> None:
        """Ends the work; builds in flight are aborted and stay pending."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker

    def notify(self) -> None:
        """Something was written. Returns at once."""
        self._idle.clear()
        self._wake.set()

    def reconnected(self) -> None:
        """The engine was (re)started: compare with its bank before the next build."""
        self._fingerprint = None
        self.notify()

    def suspect(self, keys: list[str]) -> None:
        """A request missed some of these keys in the bank: look, and rebuild what is gone."""
        self._suspects.update(keys)
        self.notify()

    async def wait_idle(self) -> None:
        """Returns once nothing is left that could be done now."""
        await self._idle.wait()

    async def _run(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            self._is_stale = False
            try:
                await self._work()
                failures, self._last_error = 0, None
            except (Unavailable, Unsupported) as error:
                failures = self._note(error, failures)
            except Exception as error:
                log.exception("build round failed; trying again")
                failures = self._note(error, failures)
            await self._pause(failures)

    def _note(self, error: Exception, failures: int) -> int:
        self._fingerprint, self._last_error = None, str(error)
        return failures + 1

    async def _pause(self, failures: int) -> None:
        if failures:  # deliberately deaf to writes: they cannot bring the engine back
            await asyncio.sleep(min(MAX_WAIT_S, self._poll_s * 0.1 * 2**failures))
            return
        if self._is_stale:
            return
        if not self._wake.is_set():
            self._idle.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._poll_s)

    async def _work(self) -> None:
        """One round: connect, purge, build until nothing is pending."""
        status = await self._engine.status()
        parts = (status.get(name) or {} for name in ("bank", "counters", "tiers"))
        self._recorder.bank(*parts)
        fingerprint = self._engine.fingerprint
        await self._binder.bind(fingerprint)
        if fingerprint != self._fingerprint:
            await self._connect(fingerprint, status)
        suspects, self._suspects = self._suspects, set()
        if suspects:
            await bank.check(self._store, self._engine, fingerprint, suspects)
        await bank.purge(self._store, self._engine, fingerprint, self._on_purge)
        if self._engine.can_inject:
            await self._build_all(fingerprint)
            await self._renew_all(fingerprint)

    async def _connect(self, fingerprint: str, status: Mapping[str, Any]) -> None:
        if (status.get("bank") or {}).get("is_full"):
            # All at once would evict as much as it builds: it is built when it is recalled.
            log.info("engine %s: a full bank; what it evicted is built on demand", fingerprint)
        else:
            lost = await bank.reconcile(self._store, self._engine, fingerprint)
            log.info("engine %s: %d items of the bank have to be built again", fingerprint, lost)
        half = int(status["max_model_len"]) // 2
        self._connected_limits = replace(self._limits, tokens=min(self._limits.tokens, half))
        if self._limits.encode_policy.is_isolated:
            dropped = await self._store.drop_dependent_kv(fingerprint)
            log.info("%d items were encoded behind others; they are built again", dropped)
        self._on_connect()
        self._fingerprint = fingerprint

    async def _build_all(self, fingerprint: str) -> None:
        async with self._flights.landing():
            while True:
                await self._fill(fingerprint)
                if not self._flights:
                    return
                await self._flights.wait_for_one(self._wake)

    async def _renew_all(self, fingerprint: str) -> None:
        """Encodes the first items of lists that grew again; new items always go first."""
        policy = self._connected_limits.encode_policy
        while self._grown and not self._wake.is_set() and not self._is_stale:
            tenant_id, owner = self._grown.pop()
            early = await self._store.early_items(
                tenant_id, owner, fingerprint, limit=early_limit(policy)
            )
            if found := renewal(early, policy):
                await self._job.renew(fingerprint, found, self._connected_limits)

    async def _fill(self, fingerprint: str) -> None:
        """Starts windows until enough are in flight or nothing is pending."""
        self._is_stale |= self._wake.is_set()
        self._wake.clear()
        while len(self._flights) < self._max_in_flight:
            window = await self._next_window(fingerprint)
            if not window:
                return
            self._grown.add((window[0].tenant_id, window[0].owner))
            job = self._job.run(fingerprint, window, self._connected_limits)
            self._flights.start(job, window)

    async def _next_window(self, fingerprint: str) -> list[BuildItem]:
        """The oldest items of one owner that are due and not in flight; owners not in flight
        first.
        """
        busy = self._flights.busy
        pending = await self._store.pending_builds(
            fingerprint, limit=len(busy) + max(_LOOK_AHEAD, self._connected_limits.items)
        )
        self._recorder.waiting(len(pending))
        self._job.saw(pending)
        working = {(i.tenant_id, i.owner) for i in pending if (i.memory_id, i.version) in busy}
        due = [i for i in pending if (i.memory_id, i.version) not in busy and self._job.is_due(i)]
        if not due:
            return []
        first = next((i for i in due if (i.tenant_id, i.owner) not in working), due[0])
        same = [i for i in due if (i.tenant_id, i.owner) == (first.tenant_id, first.owner)]
        return same[: self._connected_limits.new_items]
