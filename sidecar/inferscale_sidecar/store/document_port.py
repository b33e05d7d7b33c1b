"""The port of the document store: what the service may ask of it.

Every method sees one owner's documents only: a tenant's user, or (None) what its users share. What
has expired is never seen, deleted or not.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from inferscale_sidecar.store.records import Vector

Path = tuple[tuple[str, ...], str]
"""Namespace and key."""


@dataclass(frozen=True)
class Owner:
    """Whose documents."""

    tenant_id: str
    user_id: str | None = None


@dataclass(frozen=True)
class DocumentDraft:
    """What a document shall be. `vectors`: `[dim]` each, of what is at the paths `index`;
    `expires_at` goes with `ttl_s`."""

    value: Mapping[str, Any]
    vectors: Sequence[Vector] = ()
    ttl_s: float | None = None
    expires_at: datetime | None = None
    index: Sequence[str] | None = None


@dataclass(frozen=True)
class Document:
    """A stored document. `num` and `seq` name this state of it; `vectors` only if asked for."""

    num: int
    seq: int
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    ttl_s: float | None
    created_at: datetime
    updated_at: datetime
    vectors: Sequence[Vector] = ()


class DocumentPort(Protocol):
    """Documents by owner, namespace and key."""

    async def get_documents(self, owner: Owner, paths: Sequence[Path]) -> dict[Path, Document]:
        """Those of these documents that there are."""

    def scan_documents(
        self, owner: Owner, prefix: tuple[str, ...], *, with_vectors: bool = False
    ) -> AsyncGenerator[Document, None]:
        """All documents below a namespace, the last written first, from one snapshot.

        Close it (`contextlib.aclosing`) if it is not read to its end.
        """

    async def document_namespaces(self, owner: Owner) -> list[tuple[str, ...]]:
        """Namespaces that hold documents, sorted label by label."""

    async def write_documents(
        self, owner: Owner, writes: Mapping[Path, DocumentDraft | None]
    ) -> None:
        """Create or replace these documents, and remove those that are None, in one transaction.

        Raises:
            NotFound: no such tenant.
            QuotaExceeded: over one of the tenant's limits.
        """

    async def extend_documents(self, found: Sequence[Document], now: datetime) -> None:
        """Start the time to live of these documents again, if nobody wrote them meanwhile."""

    async def delete_documents(self, owner: Owner, prefix: tuple[str, ...]) -> int:
        """Remove all documents below a namespace; how many there were."""

    async def sweep_documents(self) -> int:
        """Remove what has expired, of all owners; how many there were."""
