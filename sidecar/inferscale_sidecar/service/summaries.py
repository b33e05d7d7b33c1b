"""Summaries of long threads, made in the background: the older part, a few messages at a time.

Owns when, and what happens on failure. Invariants: no request waits for one; what fails is told as
the summary's state, the one before stays, and the next message tries again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from inferscale_sidecar.compose.keys import cache_salt
from inferscale_sidecar.errors import StoreUnavailable
from inferscale_sidecar.extract import ExtractionFailed, Summarizer, Turn
from inferscale_sidecar.store import MemoryStore
from inferscale_sidecar.store.summary_port import SummaryWork

log = logging.getLogger(__name__)

MAX_MESSAGES = 16
"""So many messages are read for one step; what an LLM reads at once is bounded."""
MAX_CHARS = 6_000
MAX_AT_ONCE = 2

_PATIENCE_S = (2.0, 10.0, 30.0)  # the engine may be restarting
_RECOVERY_S = 1.0


class SummaryWriter:
    """Summarizes threads.

    Args:
        store: the truth.
        summarizer: the LLM.
        keep: so many of the last messages are in no summary; as many again make one due.
        clock: aware UTC time.
        patience_s: pauses before an engine that does not answer is asked again.
    """

    def __init__(
        self,
        store: MemoryStore,
        summarizer: Summarizer,
        *,
        keep: int,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience_s: Sequence[float] = _PATIENCE_S,
    ) -> None:
        self._store, self._summarizer = store, summarizer
        self._keep, self._clock, self._patience_s = keep, clock, patience_s
        self._wake = asyncio.Event()

    async def note(self, tenant_id: str, thread_id: str) -> None:
        """Messages came or went. Never raises what is the database's fault: they are stored."""
        try:
            if await self._store.ask_for_summary(tenant_id, thread_id, keep=self._keep):
                self._wake.set()
        except StoreUnavailable as error:  # the next message notes it
            log.warning("thread %s is not summarized for now: %s", thread_id, error.message)

    async def run(self) -> None:
        """Summarize what is pending, forever; also what a crash interrupted."""
        while True:
            self._wake.clear()
            try:
                waiting = await self._store.pending_summaries(limit=MAX_AT_ONCE)
            except StoreUnavailable:  # what is pending is in there, and still is when it is back
                await asyncio.sleep(_RECOVERY_S)
                continue
            if not waiting:
                await self._wake.wait()
                continue
            work = (self._step(*names) for names in waiting)
            ended = await asyncio.gather(*work, return_exceptions=True)
            for error in ended:
                if isinstance(error, BaseException):
                    log.error("a summary in the background failed", exc_info=error)
            if not any(each is True for each in ended):
                await asyncio.sleep(_RECOVERY_S)

    async def _step(self, tenant_id: str, thread_id: str) -> bool:
        """One step of one thread; False if nothing came of it."""
        work = await self._store.summary_work(
            tenant_id, thread_id, keep=self._keep, limit=MAX_MESSAGES, max_chars=MAX_CHARS
        )
        tenant = await self._store.get_tenant(tenant_id)
        if work is None or tenant is None:
            return False
        try:
            text = await self._ask(work, cache_salt(tenant, None))
        except ExtractionFailed as error:
            log.warning("summary of thread %s: %s", thread_id, error.message)
            await self._store.fail_summary(tenant_id, thread_id, error.message)
            return True
        return await self._store.put_summary(tenant_id, thread_id, work, text, keep=self._keep)

    async def _ask(self, work: SummaryWork, salt: str) -> str:
        turns = [Turn(m.content, m.role, m.name, m.said_at) for m in work.messages]
        for pause_s in (*self._patience_s, None):
            try:
                return await self._summarizer.summarize(
                    work.text, turns, now=self._clock(), salt=salt
                )
            except ExtractionFailed as error:
                if pause_s is None or error.code != "extraction_unavailable":
                    raise
                await asyncio.sleep(pause_s)
            except Exception as error:  # a defect of ours must not stop the summaries of others
                log.exception("a summary failed unexpectedly")
                raise ExtractionFailed(f"it failed: {type(error).__name__}") from error
        raise AssertionError("unreachable: the last attempt returns or raises")
