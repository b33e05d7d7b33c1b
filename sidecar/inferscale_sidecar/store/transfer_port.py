"""The port of exports and imports, beside those in `base`; what is said there holds here."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from inferscale_sidecar.core import Block, Memory, Scope, Thread, ThreadMessage
from inferscale_sidecar.store.block_port import BlockEvent
from inferscale_sidecar.store.document_port import DocumentDraft, Path
from inferscale_sidecar.store.records import Event, Vector

LinkKind = Literal["source", "superseded_by"]
Fate = Literal["new", "unchanged", "differing", "duplicate", "deleted"]
"""What becomes of what comes in; see `inferscale.protocol.transfer.ImportResponse`."""


@dataclass(frozen=True)
class PastVersion:
    """One line of a memory's history, with the time that it had where it comes from."""

    version: int
    event: Event
    text: str | None
    created_at: datetime


@dataclass(frozen=True)
class MovedMemory:
    """A memory on its way out or in. `tenant_id` of `memory` is where it comes from."""

    memory: Memory
    versions: tuple[PastVersion, ...]
    vector: Vector | None = None


@dataclass(frozen=True)
class MovedBlock:
    """A pinned block on its way out or in, with what happened to it."""

    block: Block
    versions: tuple[BlockEvent, ...]


@dataclass(frozen=True)
class MovedMessage:
    """A message on its way out or in. `thread` has the user, the agent and, as run, the id of its
    thread."""

    thread: Scope
    message: ThreadMessage


@dataclass(frozen=True)
class MovedDocument:
    """A document on its way out or in; `user_id` is None for one that all users share."""

    user_id: str | None
    path: Path
    draft: DocumentDraft
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Link:
    """`source`: the memory comes from the target; `superseded_by`: the target made it untrue."""

    kind: LinkKind
    memory_id: str
    target_id: str


@dataclass(frozen=True)
class Outcome:
    """What became of a memory that came in, and the id under which it is known here."""

    fate: Fate
    memory_id: str


class Snapshot(Protocol):
    """A tenant, or a scope of it, at one moment."""

    def memories(self, *, with_vectors: bool = False) -> AsyncIterator[list[MovedMemory]]:
        """All of them with their histories, in creation order, in batches."""

    def blocks(self) -> AsyncIterator[list[MovedBlock]]:
        """The pinned blocks attached to it; of a whole tenant also those that are not attached."""

    def links(self) -> AsyncIterator[list[Link]]:
        """All links of these memories, in batches, in the order of the memories."""

    def threads(self) -> AsyncIterator[list[Thread | MovedMessage]]:
        """Its threads and their messages, in batches: a thread before its messages."""

    def documents(self, *, with_vectors: bool = False) -> AsyncIterator[list[MovedDocument]]:
        """Its documents, if it is a user or the whole tenant, in the order of their writing."""


class TransferPort(Protocol):
    """Memories as they are, from one database to another. Both directions in constant memory."""

    def snapshot(
        self, tenant_id: str, scope: Scope | None
    ) -> AbstractAsyncContextManager[Snapshot]:
        """Read a scope, or with None the whole tenant. What is written meanwhile is not seen."""

    async def bound_embedder(self) -> str | None:
        """What the stored vectors come from; None while there is nothing."""

    async def import_memories(
        self,
        tenant_id: str,
        incoming: Sequence[MovedMemory],
        *,
        alias: Callable[[str], str],
        restore: bool = False,
        dry_run: bool = False,
    ) -> list[Outcome]:
        """Store those that are new here, in one transaction; one outcome each, in order.

        Ids, times and histories are kept. An id that another tenant of this database has, or had,
        gives way to `alias(id)`.

        Args:
            restore: also those that were deleted here.
            dry_run: write nothing, and need no vectors.

        Raises:
            ValueError: a new memory without a vector.
            TooLarge, QuotaExceeded: more than the tenant may have.
        """

    async def import_blocks(
        self,
        tenant_id: str,
        incoming: Sequence[MovedBlock],
        *,
        alias: Callable[[str], str],
        restore: bool = False,
        dry_run: bool = False,
    ) -> list[Outcome]:
        """The same for pinned blocks. One with a label that a scope of it has is a duplicate."""

    async def import_links(self, tenant_id: str, links: Sequence[Link]) -> int:
        """Store links between memories of the tenant; returns how many were new.

        A source that does not exist is left out. Who superseded a memory is kept even if that one
        was deleted, but never changed.
        """

    async def import_threads(
        self, tenant_id: str, incoming: Sequence[Thread], *, dry_run: bool = False
    ) -> list[Fate]:
        """Store threads that are new here; they keep their ids. One with the id of another user's
        or agent's thread is `differing`. Raises QuotaExceeded, as the following do."""

    async def import_messages(
        self,
        tenant_id: str,
        incoming: Sequence[MovedMessage],
        *,
        alias: Callable[[str], str],
        dry_run: bool = False,
    ) -> list[Fate]:
        """Append messages that are new here to their threads, which are made if need be. Those of a
        thread that is another user's or agent's here are `differing`, and stay out.

        An id that is given elsewhere in this database gives way to one made by `alias`.
        """

    async def import_documents(
        self, tenant_id: str, incoming: Sequence[MovedDocument], *, dry_run: bool = False
    ) -> list[Fate]:
        """Store documents where there is none. What has expired is `deleted`."""
