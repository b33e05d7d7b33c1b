"""Adding with extraction: messages first, then the facts in them, now or in the background.

Owns the order and what happens on failure. Invariants: the messages are durable and can be found
before the LLM is asked; whatever it does, they are found afterwards, or their facts are; doing the
same again is harmless.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from inferscale_sidecar.compose.keys import cache_salt
from inferscale_sidecar.core import Memory, Scope, Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import NotFound, QuotaExceeded, StoreUnavailable
from inferscale_sidecar.extract import Extracted, ExtractionFailed, Extractor, Turn
from inferscale_sidecar.service.fact_draft import fact_draft
from inferscale_sidecar.service.message import Note, draft_of
from inferscale_sidecar.service.reconcile import Reconciler
from inferscale_sidecar.store import MemoryStore
from inferscale_sidecar.store.records import Added, Draft, Extraction, IdempotencyKey

log = logging.getLogger(__name__)

MAX_AT_ONCE = 4
"""Extractions that run in the background at the same time."""

_PATIENCE_S = (2.0, 10.0, 30.0)  # the engine may be restarting
_RECOVERY_S = 1.0


@dataclass(frozen=True)
class Additions:
    """What an addition did. `extraction` is None if none was asked for, or there was no text."""

    results: list[Added]
    extraction: Extraction | None = None


class FactWriter:
    """Stores messages and extracts facts from them.

    Args:
        store: the truth.
        embedder: turns texts into vectors.
        extractor: finds the facts.
        reconciler: tells what the scope holds of them already.
        on_write: called after each committed write. Must not block.
        fingerprint: names the engine whose KV state is shown; None while there is none.
        clock: aware UTC time.
    """

    def __init__(
        self,
        store: MemoryStore,
        embedder: Embedder,
        extractor: Extractor,
        reconciler: Reconciler,
        *,
        on_write: Callable[[], None] = lambda: None,
        fingerprint: Callable[[], str | None] = lambda: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._extractor = extractor
        self._reconciler = reconciler
        self._on_write = on_write
        self._fingerprint = fingerprint
        self._clock = clock
        self._wake = asyncio.Event()
        self._busy: set[str] = set()

    async def add(
        self,
        tenant: Tenant,
        scope: Scope,
        notes: Sequence[Note],
        metadata: dict[str, Any] | None,
        request: IdempotencyKey | None,
        *,
        wait: bool,
    ) -> Additions:
        """Store the messages, and extract their facts.

        Args:
            wait: False to return once the messages are stored; `run` extracts then.

        Raises:
            Conflict: the idempotency key was used for another request.
        """
        drafts = await self._drafts(notes)
        job = await self._store.open_extraction(tenant.id, scope, drafts, metadata=metadata)
        if job.state == "done":
            return await self._done(job)
        if not wait:
            self._wake.set()
            return Additions([_kept(turn, "pending") for turn in _unique(job)], job)
        try:
            return await self._extract(tenant, job, request)
        except asyncio.CancelledError:
            self._wake.set()  # the client left; the messages are stored, so go on without it
            raise

    async def run(self) -> None:
        """Extract what is pending, forever; also what a crash interrupted."""
        while True:
            self._wake.clear()
            limit = MAX_AT_ONCE + len(self._busy)
            try:
                pending = await self._store.pending_extractions(limit=limit)
            except StoreUnavailable:  # what is pending is in there, and still is when it is back
                await asyncio.sleep(_RECOVERY_S)
                continue
            waiting = [names for names in pending if names[1] not in self._busy][:MAX_AT_ONCE]
            if not waiting:
                await self._wake.wait()
                continue
            work = (self._run_one(*names) for names in waiting)
            ended = await asyncio.gather(*work, return_exceptions=True)
            for error in ended:
                if isinstance(error, BaseException):
                    log.error("extraction in the background failed", exc_info=error)
            if any(ended):
                await asyncio.sleep(_RECOVERY_S)

    async def get(self, tenant: Tenant, extraction_id: str) -> Additions:
        """How an extraction stands, and its facts so far. Raises NotFound."""
        job = await self._store.get_extraction(tenant.id, extraction_id)
        if job is None:
            raise NotFound(
                f"no extraction {extraction_id[:64]!a}; it does not exist, or its messages were "
                "deleted"
            )
        if job.state == "done":
            return await self._done(job)
        status = "pending" if job.state == "pending" else "raw"
        return Additions([_kept(turn, status, job.error) for turn in _unique(job)], job)

    async def close(self) -> None:
        """Give the extractor's connections back."""
        await self._extractor.close()

    async def _run_one(self, tenant_id: str, extraction_id: str) -> None:
        tenant = await self._store.get_tenant(tenant_id)
        job = await self._store.get_extraction(tenant_id, extraction_id)
        if tenant is None or job is None or job.state != "pending":
            return
        try:
            await self._extract(tenant, job, None, patience=_PATIENCE_S)
        except NotFound:
            log.info("extraction %s: its messages were deleted meanwhile", extraction_id)

    async def _extract(
        self,
        tenant: Tenant,
        job: Extraction,
        request: IdempotencyKey | None,
        *,
        patience: Sequence[float] = (),
    ) -> Additions:
        self._busy.add(job.id)
        try:
            found = await self._ask_patiently(tenant, job, patience)
            return await self._finish(tenant, job, found, request)
        except (ExtractionFailed, QuotaExceeded) as error:  # the messages are stored
            return await self._failed(job, error)
        finally:
            self._busy.discard(job.id)

    async def _ask_patiently(
        self, tenant: Tenant, job: Extraction, patience: Sequence[float]
    ) -> Extracted:
        for pause_s in patience:
            try:
                return await self._ask(tenant, job)
            except ExtractionFailed as error:
                if error.code != "extraction_unavailable":
                    raise
                await asyncio.sleep(pause_s)
        return await self._ask(tenant, job)

    async def _finish(
        self, tenant: Tenant, job: Extraction, found: Extracted, request: IdempotencyKey | None
    ) -> Additions:
        vectors = await self._embedder.embed([fact.text for fact in found.facts])
        facts = [
            fact_draft(fact.text, vector, fact.sources, job)
            for fact, vector in zip(found.facts, vectors, strict=True)
        ]
        facts = await self._reconciler.reconcile(tenant, job.scope, facts)
        results = await self._store.finish_extraction(
            tenant.id,
            job.id,
            facts,
            dropped=found.dropped,
            idempotency=request,
            fingerprint=self._fingerprint(),
        )
        self._on_write()
        return Additions(results, await self._store.get_extraction(tenant.id, job.id))

    async def _ask(self, tenant: Tenant, job: Extraction) -> Extracted:
        turns = [Turn(m.text, m.role, m.actor_id, m.said_at) if m else Turn("") for m in job.turns]
        try:
            return await self._extractor.extract(
                turns, now=self._clock(), salt=cache_salt(tenant, None)
            )
        except ExtractionFailed:
            raise
        except Exception as error:
            log.exception("extraction %s failed unexpectedly", job.id)
            raise ExtractionFailed(f"extraction failed: {type(error).__name__}") from error

    async def _failed(self, job: Extraction, error: ExtractionFailed | QuotaExceeded) -> Additions:
        log.warning("extraction %s: %s", job.id, error.message)
        failed = await self._store.fail_extraction(
            job.tenant_id, job.id, code=error.code, error=error.message
        )
        self._on_write()
        return Additions([_kept(turn, "raw", failed.error) for turn in _unique(failed)], failed)

    async def _done(self, job: Extraction) -> Additions:
        facts = await self._store.extracted_facts(
            job.tenant_id, job.id, fingerprint=self._fingerprint()
        )
        return Additions(facts, job)

    async def _drafts(self, notes: Sequence[Note]) -> list[Draft]:
        texts = list(dict.fromkeys(note.text for note in notes))
        vectors = dict(zip(texts, await self._embedder.embed(texts), strict=True))
        return [draft_of(note, vectors[note.text]) for note in notes]


def _unique(job: Extraction) -> list[Memory]:
    return list({turn.id: turn for turn in job.turns if turn}.values())


def _kept(turn: Memory, status: Any, error: str | None = None) -> Added:
    if status == "raw":
        turn = replace(turn, status="live") if turn.status == "pending" else turn
    return Added(turn, "ADD", status, error)
