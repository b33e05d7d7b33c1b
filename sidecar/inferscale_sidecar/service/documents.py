"""The document store: JSON objects under a namespace and a key, found by filter or by meaning.

Owns the order of checks, embedding, reading and writing. Invariants: a batch reads what was there
before its own writes, and writes all or nothing; one owner's documents do not exist for another.
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from inferscale.protocol import document as wire
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.embed import Embedder
from inferscale_sidecar.index.base import SCORE_DIGITS
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.document_filter import Predicate, compile_document_filter
from inferscale_sidecar.service.document_text import check_value, texts_at
from inferscale_sidecar.store.document_port import (
    Document,
    DocumentDraft,
    DocumentPort,
    Owner,
    Path,
)
from inferscale_sidecar.store.records import Vector

SWEEP_INTERVAL_S = 60.0


@dataclass(frozen=True)
class Found:
    """A document that a search found; `score` is the cosine, None if it was not compared."""

    document: Document
    score: float | None = None


Operation = (
    wire.GetFields | wire.PutFields | wire.DeleteFields | wire.SearchFields | wire.NamespacesFields
)
Namespaces = list[tuple[str, ...]]
Result = Document | list[Found] | Namespaces | None
Writes = wire.PutFields | wire.DeleteFields


class DocumentService:
    """The use cases of documents.

    Args:
        store: the truth, with the clock of `clock`.
        embedder: the one that memories are embedded with.
        metrics: where operations are counted.
        clock: aware UTC time.
    """

    def __init__(
        self,
        store: DocumentPort,
        embedder: Embedder,
        metrics: Metrics,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store, self._embedder, self._metrics = store, embedder, metrics
        self._clock = clock

    async def batch(
        self, tenant: Tenant, user_id: str | None, operations: Sequence[Operation]
    ) -> list[Result]:
        """The results of operations (`inferscale.protocol.document`), in their order.

        Raises:
            InvalidInput: a filter or value that makes no sense; nothing is written then.
            TooLarge: a value over the limit.
        """
        with self._metrics.operation("documents"):
            owner = Owner(tenant.id, user_id)
            filters = {
                at: compile_document_filter(op.filter)
                for at, op in enumerate(operations)
                if isinstance(op, wire.SearchFields)
            }
            writes = await self._drafts(
                [op for op in operations if isinstance(op, wire.PutFields | wire.DeleteFields)]
            )
            results, touched = await self._read(owner, operations, filters)
            now = self._clock()
            if any(document.ttl_s is not None for document in touched):
                await self._store.extend_documents(touched, now)
            if writes:
                await self._store.write_documents(owner, _timed(writes, now))
            return results

    async def delete_all(self, tenant: Tenant, user_id: str) -> int:
        """Remove all documents of one user; how many there were."""
        with self._metrics.operation("documents"):
            return await self._store.delete_documents(Owner(tenant.id, user_id), ())

    async def run(self) -> None:
        """Remove what has expired from the disk, again and again, until cancelled."""
        while True:
            await self._store.sweep_documents()
            await asyncio.sleep(SWEEP_INTERVAL_S)

    async def _read(
        self, owner: Owner, operations: Sequence[Operation], filters: Mapping[int, Predicate]
    ) -> tuple[list[Result], list[Document]]:
        """Results of all operations, and the documents whose time starts again."""
        gets = [op for op in operations if isinstance(op, wire.GetFields)]
        there = await self._store.get_documents(owner, [_path(op) for op in gets]) if gets else {}
        results: list[Result] = []
        touched: dict[int, Document] = {}
        for at, op in enumerate(operations):
            result: Result = None
            read: list[Document] = []
            if isinstance(op, wire.GetFields):
                result = there.get(_path(op))
                read = [result] if result else []
            elif isinstance(op, wire.SearchFields):
                found = await self._search(owner, op, filters[at])
                result, read = found, [each.document for each in found]
            elif isinstance(op, wire.NamespacesFields):
                result = _namespaces(op, await self._store.document_namespaces(owner))
            if getattr(op, "refresh_ttl", False):
                touched |= {document.num: document for document in read}
            results.append(result)
        return results, list(touched.values())

    async def _search(self, owner: Owner, op: wire.SearchFields, passes: Predicate) -> list[Found]:
        prefix, end = tuple(op.namespace_prefix), op.offset + op.limit
        if op.query is not None:
            return (await self._nearest(owner, prefix, op.query, passes, end))[op.offset :]
        found: list[Found] = []
        async with aclosing(self._store.scan_documents(owner, prefix)) as documents:
            async for document in documents:
                if len(found) >= end:
                    break
                if passes(document.value):
                    found.append(Found(document))
        return found[op.offset :]

    async def _nearest(
        self, owner: Owner, prefix: tuple[str, ...], query: str, passes: Predicate, count: int
    ) -> list[Found]:
        """The closest by their best vector; then those that have none, the last written first."""
        wanted = (await self._embedder.embed([query]))[0]
        scored: list[Found] = []
        others: list[Found] = []
        scan = self._store.scan_documents(owner, prefix, with_vectors=True)
        async with aclosing(scan) as documents:
            async for document in documents:
                if not passes(document.value):
                    continue
                if document.vectors:
                    scored.append(Found(document, _score(wanted, document.vectors)))
                elif len(others) < count:
                    others.append(Found(document))
        best = heapq.nlargest(count, scored, key=lambda found: found.score or 0.0)
        return [*best, *others][:count]

    async def _drafts(self, writes: Sequence[Writes]) -> dict[Path, DocumentDraft | None]:
        """What is to be written, the last for each path, with its vectors."""
        last: dict[Path, Writes] = {}
        for op in writes:
            last.pop(_path(op), None)  # its place in the order is that of its last write
            last[_path(op)] = op
        puts = {path: op for path, op in last.items() if isinstance(op, wire.PutFields)}
        texts = {path: texts_at(op.value, op.index or ()) for path, op in puts.items()}
        for op in puts.values():
            check_value(op.value)
        flat = [text for each in texts.values() for text in each]
        vectors = iter(await self._embedder.embed(flat) if flat else ())
        drafts = {
            path: DocumentDraft(
                op.value, [next(vectors) for _ in texts[path]], op.ttl_s, index=op.index or None
            )
            for path, op in puts.items()
        }
        return {path: drafts.get(path) for path in last}


def _path(op: wire.GetFields | Writes) -> Path:
    return tuple(op.namespace), op.key


def _timed(
    writes: Mapping[Path, DocumentDraft | None], now: datetime
) -> dict[Path, DocumentDraft | None]:
    """The same, with the moment at which each expires."""
    return {
        path: draft
        and replace(
            draft,
            expires_at=None if draft.ttl_s is None else now + timedelta(seconds=draft.ttl_s),
        )
        for path, draft in writes.items()
    }


def _score(query: Vector, vectors: Sequence[Vector]) -> float:
    """The best cosine, rounded to what float32 dot products agree on."""
    best = float(np.max(np.stack(list(vectors)) @ query))
    return round(min(1.0, max(-1.0, best)), SCORE_DIGITS)


def _namespaces(op: wire.NamespacesFields, all_of_them: Namespaces) -> Namespaces:
    found = [
        namespace
        for namespace in all_of_them
        if all(_ends_as(condition, namespace) for condition in op.match_conditions)
    ]
    if op.max_depth is not None:
        found = sorted({namespace[: op.max_depth] for namespace in found})
    return found[op.offset : op.offset + op.limit]


def _ends_as(condition: wire.MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    end = namespace[: len(path)]
    if condition.match_type == "suffix":
        end = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, end, strict=True))
