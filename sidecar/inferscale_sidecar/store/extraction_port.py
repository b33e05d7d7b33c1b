"""The port of extractions, beside those in `base`; what is said there holds here."""

from collections.abc import Sequence
from typing import Any, Protocol

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store.records import (
    Added,
    Draft,
    Extraction,
    FactDraft,
    IdempotencyKey,
)


class ExtractionPort(Protocol):
    """Messages whose facts are extracted: stored first, so that no failure loses them."""

    async def open_extraction(
        self,
        tenant_id: str,
        scope: Scope,
        turns: Sequence[Draft],
        *,
        metadata: dict[str, Any] | None = None,
    ) -> Extraction:
        """Store messages, readable at once, with a pending extraction.

        Messages that the scope holds are not stored twice; the same messages again are the same
        extraction, which is `done` if all that it found is still there.

        Raises:
            QuotaExceeded, TooLarge: over one of the tenant's limits; nothing is stored.
        """

    async def finish_extraction(
        self,
        tenant_id: str,
        extraction_id: str,
        facts: Sequence[FactDraft],
        *,
        dropped: int = 0,
        idempotency: IdempotencyKey | None = None,
        fingerprint: str | None = None,
    ) -> list[Added]:
        """Store the facts, and keep the messages as their sources, in one transaction.

        A fact whose messages were all deleted meanwhile is not stored.

        Raises:
            NotFound: all messages were deleted, and the extraction with them.
            Conflict: the idempotency key was used for another request.
            QuotaExceeded: no room for the facts; the messages stay as they were.
        """

    async def fail_extraction(
        self, tenant_id: str, extraction_id: str, *, code: str, error: str
    ) -> Extraction:
        """The messages are memories for good, as they are. Raises NotFound as above."""

    async def get_extraction(self, tenant_id: str, extraction_id: str) -> Extraction | None:
        """How it stands; None if unknown, foreign, or its messages were deleted."""

    async def pending_extractions(self, *, limit: int) -> list[tuple[str, str]]:
        """(tenant id, extraction id) of the oldest ones to do, of all tenants."""

    async def extracted_facts(
        self, tenant_id: str, extraction_id: str, *, fingerprint: str | None = None
    ) -> list[Added]:
        """The facts that come from an extraction's messages, each as a NOOP."""
