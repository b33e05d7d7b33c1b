"""The ports of the store: what the service and the builder may ask of it.

Owns the promises, not the SQL. Every method that takes a `tenant_id` sees that tenant's rows only;
every method that writes has written durably, or nothing at all, when it returns.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from inferscale_sidecar.core import BuildItem, KvItem, Memory, Moment, Scope
from inferscale_sidecar.store.bank_port import BankPort
from inferscale_sidecar.store.block_port import BlockPort
from inferscale_sidecar.store.conditions import Condition
from inferscale_sidecar.store.document_port import DocumentPort
from inferscale_sidecar.store.expiry_port import ExpiryPort
from inferscale_sidecar.store.extraction_port import ExtractionPort
from inferscale_sidecar.store.handle_port import HandlePort
from inferscale_sidecar.store.neighbour_port import NeighbourPort
from inferscale_sidecar.store.records import (
    Added,
    BuildCounts,
    Draft,
    EntityPage,
    IdempotencyKey,
    IndexRow,
    Page,
    Removed,
    ScopeChanges,
    Vector,
    VersionEvent,
)
from inferscale_sidecar.store.summary_port import SummaryPort
from inferscale_sidecar.store.tenant_port import TenantPort
from inferscale_sidecar.store.thread_port import ThreadPort
from inferscale_sidecar.store.transfer_port import TransferPort


class MemoryPort(Protocol):
    """Memories and their versions. `fingerprint` names the bank whose KV state is shown."""

    async def add_memories(
        self,
        tenant_id: str,
        scope: Scope,
        drafts: Sequence[Draft],
        *,
        metadata: dict[str, Any] | None = None,
        idempotency: IdempotencyKey | None = None,
        fingerprint: str | None = None,
    ) -> list[Added]:
        """Store all drafts in one transaction, one result per draft, in order.

        A text that the very same scope holds already is a NOOP, also against concurrent writers
        in other processes; it lives on as long as the longer-lived of the two. An idempotency key
        seen before returns the first call's results.

        Raises:
            Conflict: the idempotency key was used for another request.
            NotFound: no such tenant.
            QuotaExceeded, TooLarge: over one of the tenant's limits.
        """

    async def replay(
        self, tenant_id: str, idempotency: IdempotencyKey, *, fingerprint: str | None = None
    ) -> list[Added] | None:
        """Results of the write with this key, None if there was none. Raises Conflict as above.

        Text that was deleted since is gone from here too: it reads as the empty string.
        """

    async def list_entities(
        self, tenant_id: str, id_name: str | None = None, *, limit: int, after: int | None = None
    ) -> EntityPage:
        """A page of those of whom there are memories, beyond number `after`; of one of `SCOPE_IDS`
        only, if it is named."""

    async def get_memories(
        self,
        tenant_id: str,
        ids: Sequence[str],
        *,
        at: Moment | None = None,
        fingerprint: str | None = None,
    ) -> dict[str, Memory]:
        """Those of these ids that there are at a moment (None: now)."""

    async def list_memories(
        self,
        tenant_id: str,
        scope: Scope,
        *,
        limit: int,
        before: int | None = None,
        offset: int = 0,
        condition: Condition | None = None,
        count: bool = True,
        at: Moment | None = None,
        fingerprint: str | None = None,
    ) -> Page:
        """A page of the scope, newest first, starting below number `before`.

        Args:
            offset: how many of them to leave out first.
            condition: only what it holds for; one that `conditions.to_sql` can say.
            count: False to leave out the total, which is 0 then.
        """

    async def update_memory(
        self,
        tenant_id: str,
        memory_id: str,
        *,
        text: str | None,
        vector: Vector | None,
        metadata: dict[str, Any] | None,
        keep_metadata: bool,
        expires_at: datetime | None = None,
        keep_expiry: bool = True,
        fingerprint: str | None = None,
    ) -> Memory | None:
        """Change text (a new version; the old one's KV is queued for purge), metadata, expiry.

        None if there is no such memory. Raises Conflict if the scope holds the new text already,
        QuotaExceeded or TooLarge if it is over one of the tenant's limits.
        """

    async def delete_memory(self, tenant_id: str, memory_id: str) -> Removed | None:
        """Remove a memory with all that derives from it; None if there is no such memory.

        Gone: row, texts of all versions, embedding, its places in handles. Queued for purge: its
        KV and that of every item encoded behind it.
        """

    async def delete_memories(self, tenant_id: str, ids: Sequence[str]) -> Removed:
        """The same for those of these ids that there are, in one transaction."""

    async def delete_scope(self, tenant_id: str, scope: Scope) -> Removed:
        """The same for all memories of a scope, in the same number of statements, and for blocks
        that are attached to it: those that are attached elsewhere too are only detached. Its
        threads go with their messages. If it is a user, and nothing narrower, so do the
        documents. What banks keep of its conversations is due for purge."""

    async def history(self, tenant_id: str, memory_id: str) -> list[VersionEvent]:
        """What happened to a memory, oldest first; empty if it never existed."""

    async def changes(
        self, tenant_id: str, scope: Scope, *, since: int | None, now: datetime | None = None
    ) -> ScopeChanges:
        """Changes in the list that `scope.owner` names, after change number `since` (None: all).

        What has expired by `now` is not there. Only the first id of `scope` counts. Reading twice
        from the same number is harmless.
        """

    async def scope_rows(self, tenant_id: str, scope: Scope, *, at: Moment) -> list[IndexRow]:
        """All that is found in a scope at a moment, as an index needs it.

        The vector of a text that was changed since is empty.
        """

    async def live_versions(self, tenant_id: str, ids: Sequence[str]) -> dict[str, int]:
        """Current version of each id that is still live."""


class KvPort(Protocol):
    """Which KV the bank holds, what is to be built, and what is to be purged from it."""

    async def pending_builds(self, fingerprint: str, *, limit: int) -> list[BuildItem]:
        """The oldest live versions without KV that have not failed more than `MAX_FAILURES` times.

        Those of one (tenant, owner) stand together. Items marked as building are among them: the
        builder knows what it has in flight, and after a crash they must come again.
        """

    async def mark_building(self, fingerprint: str, items: Sequence[BuildItem]) -> None:
        """Show these items as building."""

    async def mark_failed(
        self, fingerprint: str, items: Sequence[BuildItem], error: str, *, counts: bool = True
    ) -> None:
        """Keep the last cause, and count one failure of each item unless it is not its fault."""

    async def put_kv_items(self, items: Sequence[KvItem]) -> list[KvItem]:
        """Record KV that the bank holds. Returns those whose memory, version or context vanished
        meanwhile: the caller deletes their keys from the bank."""

    async def previous_items(
        self, tenant_id: str, owner: str, *, before: BuildItem, limit: int
    ) -> list[BuildItem]:
        """The owner's live items created just before `before`, oldest first."""

    async def kv_items(
        self, tenant_id: str, fingerprint: str, versions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], KvItem]:
        """KV of these (memory id, version) pairs, as far as there is any."""

    async def forget_kv(self, fingerprint: str, keys: Sequence[str]) -> None:
        """The bank lost these keys: their items are pending again."""

    def all_keys(self, fingerprint: str) -> AsyncIterator[list[str]]:
        """All keys that the bank should hold, in batches."""

    async def take_purges(self, fingerprint: str, *, limit: int) -> list[str]:
        """Keys to delete from the bank, and names of texts to forget there (ids of memories and
        blocks). They come again until `finish_purges` is called."""

    async def finish_purges(self, keys: Sequence[str], *, fingerprint: str | None = None) -> None:
        """These keys are out of the bank (of one engine fingerprint, or of all)."""

    async def build_counts(self, tenant_id: str, fingerprint: str | None) -> BuildCounts:
        """The tenant's memories by KV state."""


class MemoryStore(
    MemoryPort,
    ExtractionPort,
    ExpiryPort,
    KvPort,
    BankPort,
    NeighbourPort,
    BlockPort,
    ThreadPort,
    SummaryPort,
    HandlePort,
    DocumentPort,
    TransferPort,
    TenantPort,
    Protocol,
):
    """All of it, with a life cycle."""

    async def start(self) -> None:
        """Migrate the schema, create the default tenant, tidy up after a crash.

        Raises:
            ConfigError: the database cannot be opened, or is newer than this release.
        """

    async def bind_embedder(self, name: str, dim: int) -> None:
        """Record which embedder the vectors come from, once.

        Raises:
            ConfigError: the stored vectors come from another one.
        """

    async def check_integrity(self) -> list[str]:
        """Sentences about whatever contradicts an invariant; empty if all is well."""

    async def close(self) -> None: ...
