"""Recall: search, order and freeze a composition behind a handle; and resolve it again.

Invariant: a handle means the same for as long as it lives, less memories deleted or updated and
blocks deleted or detached since; unknown, foreign and expired handles are told apart by nobody.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from inferscale.protocol.memory import KvState
from inferscale_sidecar.compose.order import order, suffix_items
from inferscale_sidecar.core import (
    Block,
    Composition,
    CompositionItem,
    PinnedBlock,
    Scope,
    Tenant,
)
from inferscale_sidecar.errors import NotFound, TooLarge, Unsupported
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.message import need_scope, read_moment
from inferscale_sidecar.service.ranking import Ranking
from inferscale_sidecar.service.search import DEFAULT_RANKING, Searcher
from inferscale_sidecar.store import MemoryStore

DEFAULT_TTL_S = 86_400


class Frame(Protocol):
    """How a list of texts becomes the block that a model sees (`compose.frame.MemoryFrame`)."""

    def render(self, items: Sequence[str], pinned: Sequence[PinnedBlock] = ()) -> str: ...


@dataclass(frozen=True)
class Recalled:
    """A composition as a client sees it: with its text, and the KV state of each item."""

    composition: Composition
    text: str
    kv_states: tuple[KvState, ...]


class RecallService:
    """Makes and resolves handles.

    Args:
        store: the truth.
        searcher: shared with the memory service.
        frame: renders the block.
        metrics: where operations are counted.
        fingerprint: names the engine whose KV counts as ready; None while there is none.
        is_kv_off: True if nothing is built or injected at all.
        count_tokens: how many tokens the served model makes of a text; None if nobody knows.
        clock: aware UTC time.
    """

    def __init__(
        self,
        store: MemoryStore,
        searcher: Searcher,
        frame: Frame,
        metrics: Metrics,
        *,
        fingerprint: Callable[[], str | None] = lambda: None,
        is_kv_off: Callable[[], bool] = lambda: False,
        count_tokens: Callable[[str], int] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._frame = frame
        self._metrics = metrics
        self._fingerprint = fingerprint
        self._is_kv_off = is_kv_off
        self._count_tokens = count_tokens
        self._clock = clock

    async def recall(
        self,
        tenant: Tenant,
        scope: Scope,
        query: str,
        *,
        k: int = 20,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        ranking: Ranking = DEFAULT_RANKING,
        max_tokens: int | None = None,
        as_of: datetime | None = None,
        shown_to: Scope | None = None,
        ttl_s: int = DEFAULT_TTL_S,
        keep: bool = True,
    ) -> Composition:
        """Pinned blocks and the `k` most relevant memories, best last, under a new handle.

        Args:
            tenant, scope, query, k, threshold, filters, ranking: as for a search.
            max_tokens: of the text; the worst memories are left out until it fits.
            as_of: a moment whose memories are wanted; blocks are those of the present.
            shown_to: whose blocks; None: those of `scope`.
            ttl_s: how long the handle lives.
            keep: False for a composition that is used once: its handle cannot be resolved, and
                nothing is written.

        Raises:
            InvalidInput: no scope, or a filter that makes no sense.
            TooLarge: the blocks alone have more than `max_tokens`.
            Unsupported: `max_tokens` without a tokenizer.
        """
        with self._metrics.operation("recall"):
            need_scope(scope)
            shown_to = shown_to or scope
            now = self._clock()
            at = read_moment(now, show_expired=False, as_of=as_of)
            hits = await self._searcher.search(
                tenant,
                scope,
                query,
                k=k,
                threshold=threshold,
                filters=filters,
                ranking=ranking,
                at=at,
            )
            with self._metrics.stage("compose"):
                items = order(hits, suffix_items=suffix_items(len(hits)))
                pinned = await self._store.pinned_blocks(tenant.id, shown_to)
                blocks = tuple(_frozen(block) for block in pinned)
                if max_tokens is not None:
                    items = self._fitting(items, blocks, max_tokens)
            composition = Composition(
                handle=f"mh_{secrets.token_hex(16)}",
                tenant_id=tenant.id,
                scope=shown_to,
                items=items,
                created_at=now,
                expires_at=now + timedelta(seconds=ttl_s),
                blocks=blocks,
                as_of=at.as_of,
            )
            if keep:
                await self._store.put_handle(composition)
            self._metrics.recall_items.observe(len(items))
            return composition

    async def resolve(self, tenant: Tenant, handle: str) -> Composition:
        """What the handle stands for now. Raises NotFound."""
        with self._metrics.operation("resolve"):
            composition = await self._store.get_handle(tenant.id, handle)
            if composition is None:
                raise NotFound("no such handle: it is unknown, expired, or not yours; recall again")
            return composition

    async def show(self, composition: Composition) -> Recalled:
        """Render a composition, and look up the KV state of its items."""
        memories = await self._store.get_memories(
            composition.tenant_id,
            [item.memory_id for item in composition.items],
            fingerprint=self._fingerprint(),
        )
        states: list[KvState] = []
        for item in composition.items:
            memory = memories.get(item.memory_id)
            gone = memory is None or memory.version != item.version or self._is_kv_off()
            states.append("off" if gone or memory is None else memory.kv_state)
        text = self._text(composition.items, composition.blocks)
        return Recalled(composition, text, tuple(states))

    def _text(self, items: Sequence[CompositionItem], blocks: Sequence[PinnedBlock]) -> str:
        return self._frame.render([item.text for item in items], blocks)

    def _fitting(
        self, items: tuple[CompositionItem, ...], blocks: Sequence[PinnedBlock], max_tokens: int
    ) -> tuple[CompositionItem, ...]:
        """The items without the worst ones that, with the blocks, would be too many tokens."""
        if self._count_tokens is None:
            raise Unsupported(
                "max_tokens needs the served model's tokenizer, which this server has not loaded "
                "(inject.enabled is off, or the model has none); limit the memories with k",
                param="max_tokens",
            )
        by_score = sorted(range(len(items)), key=lambda at: (-items[at].score, -at))
        low, high = 0, len(items)
        while low < high:  # the text of more items is never shorter
            middle = (low + high + 1) // 2
            some = [items[at] for at in sorted(by_score[:middle])]
            fits = self._count_tokens(self._text(some, blocks)) <= max_tokens
            low, high = (middle, high) if fits else (low, middle - 1)
        if not low and (size := self._count_tokens(self._text((), blocks))) > max_tokens:
            raise TooLarge(
                f"the pinned blocks alone are {size} tokens, max_tokens is {max_tokens}; raise it, "
                "or shorten or detach blocks",
                code="max_tokens_too_small",
                param="max_tokens",
            )
        return tuple(items[at] for at in sorted(by_score[:low]))

    async def count_handles(self) -> int:
        """Number of live handles, of all tenants."""
        return await self._store.count_handles(self._clock())


def _frozen(block: Block) -> PinnedBlock:
    return PinnedBlock(block.id, block.version, block.label, block.value, block.description)
