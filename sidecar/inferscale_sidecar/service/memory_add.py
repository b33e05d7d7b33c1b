"""Remembering: what a client sends becomes memories, verbatim or as facts.

Owns the order of checks, embedding and writing of additions; `memory` owns the rest. Invariant: a
write is durable and visible to the next read when its method returns.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Memory, Scope, Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.errors import NotFound, Unsupported
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.listing import Lister
from inferscale_sidecar.service.memory_facts import Additions, FactWriter
from inferscale_sidecar.service.message import (
    Note,
    check_metadata,
    draft_of,
    end_of_life,
    name_request,
    need_scope,
    read_notes,
)
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.store import MemoryStore
from inferscale_sidecar.store.records import (
    Added,
    IdempotencyKey,
)

_FEW = 4


class MemoryAdder:
    """The half of `MemoryService` that adds; see there for the arguments."""

    def __init__(
        self,
        store: MemoryStore,
        embedder: Embedder,
        searcher: Searcher,
        metrics: Metrics,
        *,
        on_write: Callable[[], None] = lambda: None,
        fingerprint: Callable[[], str | None] = lambda: None,
        is_kv_off: Callable[[], bool] = lambda: False,
        facts: FactWriter | None = None,
        infers: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._searcher = searcher
        self._lister = Lister(store, searcher, fingerprint)
        self._metrics = metrics
        self._on_write = on_write
        self._fingerprint = fingerprint
        self._is_kv_off = is_kv_off
        self._facts = facts
        self._infers = infers
        self._clock = clock

    async def add(
        self,
        tenant: Tenant,
        scope: Scope,
        messages: str | Message | Sequence[Message],
        **options: Any,
    ) -> list[Added]:
        """The results of `remember`, one per stored text or extracted fact."""
        return (await self.remember(tenant, scope, messages, **options)).results

    async def remember(
        self,
        tenant: Tenant,
        scope: Scope,
        messages: str | Message | Sequence[Message],
        *,
        metadata: dict[str, Any] | None = None,
        infer: bool | None = None,
        wait: bool = True,
        expires_at: datetime | None = None,
        ttl_s: int | None = None,
        idempotency_key: str | None = None,
    ) -> Additions:
        """Store messages verbatim, all or none, or the facts in them.

        A text that exactly this scope holds already is a NOOP with the id of the one that is there,
        which lives on as long as the longer-lived of the two.
        The same `idempotency_key` gives the first call's results again, unless extraction failed.

        Args:
            infer: extract facts; None: as this server is set up.
            wait: False to extract in the background.
            expires_at, ttl_s: until when the memories are there, one or the other; None: for good.

        Raises:
            InvalidInput: no scope, a text or metadata that cannot be stored, or a time gone by.
            Conflict: the idempotency key was used for another request.
            QuotaExceeded, TooLarge: over one of the tenant's limits; nothing is stored.
            Unsupported: `infer=True` without an LLM.
        """
        with self._metrics.operation("add"):
            need_scope(scope)
            facts = self._writer(infer)
            metadata = check_metadata(metadata)
            notes = read_notes(messages)
            key = name_request(
                idempotency_key,
                scope,
                notes,
                metadata,
                infer=facts is not None,
                lifetime=expires_at or ttl_s,
            )
            # A few texts are embedded as soon as looked for, and the store finds the earlier call.
            is_quick = facts is None and 0 < len(notes) <= _FEW and expires_at is None
            if key and not is_quick:
                earlier = await self._store.replay(tenant.id, key, fingerprint=self._fingerprint())
                if earlier is not None:
                    return self._shown_all(Additions(earlier))
            if not notes:
                return Additions([])
            end = end_of_life(expires_at, ttl_s, now=self._clock())
            notes = [replace(note, expires_at=end) for note in notes]
            if facts is None:
                return Additions(await self._add(tenant, scope, notes, metadata, key))
            added = await facts.add(tenant, scope, notes, metadata, key, wait=wait)
            return self._shown_all(added)

    async def extraction(self, tenant: Tenant, extraction_id: str) -> Additions:
        """How an extraction stands. Raises NotFound."""
        if self._facts is None:
            raise NotFound("no such extraction: this server extracts nothing")
        return self._shown_all(await self._facts.get(tenant, extraction_id))

    def _writer(self, infer: bool | None) -> FactWriter | None:
        """Who extracts; None to store verbatim."""
        if infer is None:
            infer = self._infers and self._facts is not None
        if infer and self._facts is None:
            raise Unsupported(
                "infer=True needs an LLM to extract facts with, and this server has none; "
                "send infer=False to store the messages verbatim",
                param="infer",
            )
        return self._facts if infer else None

    async def _add(
        self,
        tenant: Tenant,
        scope: Scope,
        notes: Sequence[Note],
        metadata: dict[str, Any] | None,
        request: IdempotencyKey | None,
    ) -> list[Added]:
        texts = list(dict.fromkeys(note.text for note in notes))
        vectors = dict(zip(texts, await self._embedder.embed(texts), strict=True))
        drafts = [draft_of(note, vectors[note.text]) for note in notes]
        results = await self._store.add_memories(
            tenant.id,
            scope,
            drafts,
            metadata=metadata,
            idempotency=request,
            fingerprint=self._fingerprint(),
        )
        if any(added.event == "ADD" for added in results):
            self._on_write()
        return [replace(added, memory=self._shown(added.memory)) for added in results]

    def _shown_all(self, additions: Additions) -> Additions:
        results = [replace(each, memory=self._shown(each.memory)) for each in additions.results]
        return replace(additions, results=results)

    def _shown(self, memory: Memory) -> Memory:
        return replace(memory, kv_state="off") if self._is_kv_off() else memory
