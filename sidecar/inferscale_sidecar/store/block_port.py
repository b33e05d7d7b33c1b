"""The port of pinned blocks, and what goes through it. Promises as in `base`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from inferscale_sidecar.core import Block, Scope
from inferscale_sidecar.store.records import Removed


@dataclass(frozen=True)
class BlockDraft:
    """A block about to be written. `limit` is in characters."""

    label: str
    value: str
    limit: int
    description: str | None = None
    read_only: bool = False
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class BlockPage:
    """Blocks, oldest first. `next_after` continues the list; None on the last page."""

    blocks: Sequence[Block]
    total: int
    next_after: int | None


@dataclass(frozen=True)
class BlockEvent:
    """One line of a block's history. Without texts once the block was deleted."""

    block_id: str
    version: int
    event: Literal["ADD", "UPDATE", "DELETE"]
    label: str | None
    value: str | None
    description: str | None
    created_at: datetime


class BlockPort(Protocol):
    """Pinned blocks and what they are attached to. In one scope a label names one block."""

    async def create_block(self, tenant_id: str, draft: BlockDraft, scope: Scope | None) -> Block:
        """A new block, attached to `scope` if there is one.

        Raises:
            Conflict: the scope has a block with this label.
            NotFound: no such tenant.
            QuotaExceeded: over one of the tenant's limits.
        """

    async def get_block(self, tenant_id: str, block_id: str) -> Block | None: ...

    async def list_blocks(
        self,
        tenant_id: str,
        scope: Scope | None = None,
        *,
        label: str | None = None,
        limit: int,
        after: int | None = None,
    ) -> BlockPage:
        """A page of the blocks, oldest first, starting above number `after`.

        Args:
            scope: only what is attached to a scope with these ids, others not given matching any;
                None: all of the tenant, attached or not.
            label: only those with exactly this label.
        """

    async def pinned_blocks(
        self, tenant_id: str, scope: Scope, *, label: str | None = None
    ) -> list[Block]:
        """What a composition of exactly these ids shows, in the order in which it is shown: what
        many requests share (an app's, then an agent's) before what few do (a user's, then a
        run's), by label."""

    async def edit_block(
        self, tenant_id: str, block_id: str, edit: Callable[[Block], Block]
    ) -> Block | None:
        """Apply `edit` to the block as it is now, while nobody else can change it.

        Label, value, description, limit, read_only and metadata are taken over; there is a new
        version if what is shown changed. What `edit` raises leaves everything as it was.

        Returns:
            The block afterwards; None if there is none.

        Raises:
            Conflict: the new label is another block's in one of the scopes.
            QuotaExceeded: over one of the tenant's limits.
        """

    async def attach_block(self, tenant_id: str, block_id: str, scope: Scope) -> Block | None:
        """Attach to one more scope; harmless if it is. Raises Conflict as `create_block`."""

    async def detach_block(self, tenant_id: str, block_id: str, scope: Scope) -> Block | None:
        """Detach from exactly this scope; harmless if it is not attached."""

    async def delete_block(self, tenant_id: str, block_id: str) -> Removed | None:
        """Remove a block: row, texts of all versions, its places in handles. Queued for purge: the
        exact prefixes that hold its text."""

    async def block_history(self, tenant_id: str, block_id: str) -> list[BlockEvent]:
        """What happened to a block, oldest first; empty if it never existed."""

    async def put_block_prefixes(
        self, fingerprint: str, block_ids: Sequence[str], keys: Sequence[str]
    ) -> None:
        """The engine keeps these keys, which hold the text of these blocks. They are queued for
        purge at once if one of the blocks is gone."""
