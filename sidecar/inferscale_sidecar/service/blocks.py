"""Pinned blocks: create, read, change, attach, forget; and the edits that agents make.

Owns the rules of an edit: limits, versions, what may be edited by whom. Invariant: an edit is made
to the block as it is at that moment, so two edits at once both take effect, or one is told.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferscale_sidecar.core import Block, Scope, Tenant
from inferscale_sidecar.errors import Conflict, InvalidInput, NotFound, PermissionDenied, TooLarge
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.message import check_metadata, need_scope
from inferscale_sidecar.store.block_port import BlockDraft, BlockEvent, BlockPage, BlockPort
from inferscale_sidecar.store.records import Removed

MAX_PAGE = 1_000

Edit = Callable[[Block], Block]


class BlockService:
    """The use cases of pinned blocks.

    Args:
        store: the truth.
        metrics: where operations are counted.
        on_write: called after a deletion; wakes the queue that purges the bank. Must not block.
    """

    def __init__(
        self, store: BlockPort, metrics: Metrics, *, on_write: Callable[[], None] = lambda: None
    ) -> None:
        self._store, self._metrics, self._on_write = store, metrics, on_write

    async def create(self, tenant: Tenant, scope: Scope, draft: BlockDraft) -> Block:
        """A new block, attached to the scope unless that is empty.

        Raises:
            Conflict: the scope has a block with this label.
            InvalidInput: metadata that cannot be stored.
            TooLarge: the value is longer than the limit.
        """
        with self._metrics.operation("block_write"):
            draft = replace(draft, metadata=check_metadata(draft.metadata))
            _check_limit(draft.label, draft.value, draft.limit)
            where = None if scope == Scope() else scope
            return await self._store.create_block(tenant.id, draft, where)

    async def get(self, tenant: Tenant, block_id: str) -> Block:
        """Raises NotFound, also for another tenant's block."""
        with self._metrics.operation("block_read"):
            return _found(await self._store.get_block(tenant.id, block_id), block_id)

    async def list(
        self,
        tenant: Tenant,
        scope: Scope,
        *,
        label: str | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> BlockPage:
        """A page of blocks, oldest first. `after` is the last page's `next_after`.

        Args:
            scope: only those attached to a scope with these ids; an empty one: all of the tenant.
            label: only those with exactly this label.
        """
        with self._metrics.operation("block_read"):
            if not 1 <= limit <= MAX_PAGE:
                raise InvalidInput(f"limit is {limit}; it must be 1 to {MAX_PAGE}", param="limit")
            where = None if scope == Scope() else scope
            return await self._store.list_blocks(
                tenant.id, where, label=label, limit=limit, after=after
            )

    async def shown(
        self, tenant: Tenant, scope: Scope, *, label: str | None = None
    ) -> Sequence[Block]:
        """What a composition of exactly these ids shows, in order. Raises InvalidInput without."""
        with self._metrics.operation("block_read"):
            need_scope(scope)
            return await self._store.pinned_blocks(tenant.id, scope, label=label)

    async def update(
        self,
        tenant: Tenant,
        block_id: str,
        changes: Mapping[str, Any],
        *,
        if_version: int | None = None,
    ) -> Block:
        """Change fields of a block, read-only or not.

        Args:
            changes: new values by field name of `Block`.
            if_version: the version that the caller has seen; None: whatever it is.

        Raises:
            Conflict: another version by now, or the label is taken.
            InvalidInput: nothing to change, or metadata that cannot be stored.
            NotFound: no such block.
            TooLarge: the value is longer than the limit.
        """
        if not changes:
            raise InvalidInput("an update needs at least one field to change; none was given")
        if "metadata" in changes:
            changes = {**changes, "metadata": check_metadata(changes["metadata"])}
        return await self._edit(
            tenant, block_id, lambda block: replace(block, **changes), if_version=if_version
        )

    async def append(
        self, tenant: Tenant, block_id: str, text: str, *, if_version: int | None = None
    ) -> Block:
        """As an agent: add a line at the end.

        Raises:
            PermissionDenied: the block is read-only.
            Conflict, NotFound, TooLarge: as `update`.
        """

        def edit(block: Block) -> Block:
            value = f"{block.value}\n{text}" if block.value else text
            return replace(block, value=value)

        return await self._edit(tenant, block_id, edit, if_version=if_version, is_agent=True)

    async def replace(
        self, tenant: Tenant, block_id: str, old: str, new: str, *, if_version: int | None = None
    ) -> Block:
        """As an agent: put `new` wherever `old` stands.

        Raises:
            InvalidInput: `old` does not stand in the block.
            PermissionDenied, Conflict, NotFound, TooLarge: as `append`.
        """

        def edit(block: Block) -> Block:
            if old not in block.value:
                raise InvalidInput(
                    f"block {block.label!r} does not contain the text of `old`; it must be there "
                    "letter by letter: read the block again",
                    code="block_text_not_found",
                    param="old",
                )
            return replace(block, value=block.value.replace(old, new))

        return await self._edit(tenant, block_id, edit, if_version=if_version, is_agent=True)

    async def attach(self, tenant: Tenant, block_id: str, scope: Scope) -> Block:
        """Show a block in one more scope. Raises InvalidInput, NotFound, or Conflict if another
        block has its label there."""
        with self._metrics.operation("block_write"):
            need_scope(scope)
            return _found(await self._store.attach_block(tenant.id, block_id, scope), block_id)

    async def detach(self, tenant: Tenant, block_id: str, scope: Scope) -> Block:
        """Show it there no more, in live handles either. Raises InvalidInput or NotFound."""
        with self._metrics.operation("block_write"):
            need_scope(scope)
            return _found(await self._store.detach_block(tenant.id, block_id, scope), block_id)

    async def delete(self, tenant: Tenant, block_id: str) -> Removed:
        """Remove a block everywhere, with its history's texts. Raises NotFound."""
        with self._metrics.operation("delete"):
            removed = await self._store.delete_block(tenant.id, block_id)
            if removed is None:
                raise _not_found(block_id)
            self._on_write()
            return removed

    async def history(self, tenant: Tenant, block_id: str) -> Sequence[BlockEvent]:
        """What happened to a block, oldest first; without texts once deleted. Raises NotFound."""
        with self._metrics.operation("history"):
            events = await self._store.block_history(tenant.id, block_id)
            if not events:
                raise _not_found(block_id)
            return events

    async def _edit(
        self,
        tenant: Tenant,
        block_id: str,
        edit: Edit,
        *,
        if_version: int | None,
        is_agent: bool = False,
    ) -> Block:
        def checked(block: Block) -> Block:
            if is_agent and block.read_only:
                raise PermissionDenied(
                    f"block {block.label!r} is read-only: agents cannot edit it; change it with "
                    "PATCH, or make it editable with read_only: false",
                    code="block_read_only",
                )
            _check_version(block, if_version)
            changed = edit(block)
            _check_limit(changed.label, changed.value, changed.limit)
            return changed

        with self._metrics.operation("block_write"):
            return _found(await self._store.edit_block(tenant.id, block_id, checked), block_id)


def _check_version(block: Block, wanted: int | None) -> None:
    if wanted is not None and wanted != block.version:
        raise Conflict(
            f"block {block.label!r} is at version {block.version}, not {wanted}: it was changed "
            "meanwhile; read it again, and make your change to what it says now",
            code="block_version_conflict",
            param="if_version",
        )


def _check_limit(label: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise TooLarge(
            f"block {label!r} would have {len(value)} characters, its limit is {limit}; shorten "
            "the value, keep details as memories, or raise the limit",
            code="block_limit_exceeded",
            param="value",
        )


def _found(block: Block | None, block_id: str) -> Block:
    if block is None:
        raise _not_found(block_id)
    return block


def _not_found(block_id: str) -> NotFound:
    return NotFound(f"no block {block_id[:64]!a}; it does not exist or was deleted")
