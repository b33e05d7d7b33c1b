"""Puts memory into requests to the model, and says afterwards what became of it.

Owns the way from a client's body to the engine's and back. Does not own HTTP. Invariants: unless
memory is named, by the field `memory` or from outside the body, a request differs from the client's
only in `cache_salt`; with it, the prompt text is the same whether items are injected or not; what
is missing for injection costs speed only.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from inferscale.protocol.chat import MemoryField, Position
from inferscale_sidecar.build.exact import LazyExactness
from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.prefix_finder import PrefixFinder
from inferscale_sidecar.compose.frame import MemoryFrame, Placement
from inferscale_sidecar.compose.keys import cache_salt
from inferscale_sidecar.compose.order import exact_items
from inferscale_sidecar.core import Composition, CompositionItem, Scope, Tail, Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.service.chat_compose import Composer
from inferscale_sidecar.service.chat_fields import (
    Endpoint,
    clean_query,
    encoded,
    own_salt,
    refuse_reserved,
    take_memory,
)
from inferscale_sidecar.service.chat_outcome import ChatOutcome
from inferscale_sidecar.service.chat_place import is_searchable, places
from inferscale_sidecar.service.chat_ports import ChatRecorder, KvLookup, Recall, Silent, Suspects
from inferscale_sidecar.service.chat_position import PositionRule
from inferscale_sidecar.service.chat_report import MemoryPlan, ReportBook
from inferscale_sidecar.service.chat_turns import NextTurns, Turn


@dataclass(frozen=True)
class PreparedRequest:
    """What to send to the engine. `memory` is None for a request without memory."""

    path: str
    content: bytes
    is_stream: bool
    memory: MemoryPlan | None
    turn: Turn | None = None
    """Of a conversation whose next turn is to be prepared when this one is answered."""


class ChatService:
    """See the module. Safe to use from many tasks.

    Args:
        engine: where requests go.
        recall: finds and resolves compositions.
        kv: which items have KV.
        frame: renders the block; the same one that handles are rendered with.
        placement: where this model's template lets the block stand.
        recorder: metrics.
        finder: tells what stands before the block; None: nothing is injected, memory is text.
        warmer: builds that ahead; None to leave it to the first request.
        suspects: told when the bank did not hold what the store says it holds.
        lazy: makes handles that are used again exact; None: they stay injected.
        position: of memory in requests that do not say.
        turns: prepares next turns; None: each turn prefills what it needs itself.
        prepares_turns: whether it is asked to by requests that do not say.
        keep_turns_s: how long the bank keeps the end of a conversation.
        clock: aware UTC time.
    """

    def __init__(
        self,
        engine: Engine,
        recall: Recall,
        kv: KvLookup,
        frame: MemoryFrame,
        *,
        recorder: ChatRecorder | None = None,
        placement: Placement = "system",
        finder: PrefixFinder | None = None,
        warmer: PrefixWarmer | None = None,
        suspects: Suspects | None = None,
        lazy: LazyExactness | None = None,
        position: Position = "auto",
        turns: NextTurns | None = None,
        prepares_turns: bool = True,
        keep_turns_s: float = 3600,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._engine, self._recall, self._kv, self._frame = engine, recall, kv, frame
        self._finder, self._places = finder, places(frame, placement)
        self._turns, self._prepares = turns, prepares_turns
        self._keep_turns_s, self._clock = keep_turns_s, clock
        self._composer = Composer(
            engine,
            frame,
            self._places,
            placement,
            rule=PositionRule(position, finder),
            finder=finder,
            warmer=warmer,
            is_lazy=lazy is not None,
        )
        self.reports = ReportBook(engine)
        self._outcome = ChatOutcome(
            self.reports, recorder or Silent(), warmer=warmer, suspects=suspects, lazy=lazy
        )

    async def prepare(
        self, tenant: Tenant, endpoint: Endpoint, body: Mapping[str, Any], ids: Mapping[str, str]
    ) -> PreparedRequest:
        """From a client's body to the engine's.

        Args:
            ids: whose memory to recall for a body that does not say, not even `"memory": null`.

        Raises:
            InvalidInput: the body, or its field `memory`, is wrong.
            NotFound: the handle is unknown, expired or another tenant's.
        """
        asked_at, sent = self._clock(), dict(body)
        field = take_memory(sent)
        if ids and "memory" not in body and is_searchable(self._places[endpoint], sent):
            field = MemoryField.model_validate(dict(ids))
        refuse_reserved(sent)
        sent["cache_salt"] = cache_salt(tenant, own_salt(sent))
        plan = turn = None
        if field is not None:
            composition = await self._composition(tenant, field, endpoint, sent)
            plan = await self._plan(tenant, field, composition)
            if plan.items or plan.blocks:
                at = await self._composer.position(endpoint, body, field)
                tail = Tail(composition.scope, asked_at, self._keep_turns_s)
                plan = await self._composer.compose(
                    tenant, endpoint, sent, composition, plan, at, tail
                )
                if self._turns and (self._prepares if field.prepare is None else field.prepare):
                    turn = self._composer.turn(endpoint, body, sent, composition, plan, tail)
            self.reports.open(plan)
        path = self._places[endpoint].path
        return PreparedRequest(path, encoded(sent), bool(sent.get("stream")), plan, turn)

    async def _composition(
        self, tenant: Tenant, field: MemoryField, endpoint: Endpoint, body: Mapping[str, Any]
    ) -> Composition:
        if field.handle is not None:
            return await self._recall.resolve(tenant, field.handle)
        return await self._recall.recall(
            tenant,
            Scope.of(field),
            field.query or clean_query(self._places[endpoint].said(body)),
            k=field.k,
            threshold=field.threshold,
            filters=field.filters,
            max_tokens=field.max_tokens,
            keep=False,
        )

    async def _plan(
        self, tenant: Tenant, field: MemoryField, composition: Composition
    ) -> MemoryPlan:
        """Which items are asked to be injected: the leading ones that have KV, never the suffix."""
        items = composition.items
        head = items[: len(items) - exact_items(items, field.fidelity)]
        can_inject = bool(self._finder and self._engine.can_inject)
        item_keys = await self._item_keys(tenant, items if can_inject else ())
        is_text = not field.inject or field.fidelity == "exact"
        reason: str | None = "not_requested" if is_text else None
        if reason is None and not can_inject:
            reason = "disabled"
        keys = takewhile(bool, item_keys[: len(head)] if reason is None else ())
        return MemoryPlan(
            request_id=f"mr_{secrets.token_hex(12)}",
            tenant_id=tenant.id,
            handle=field.handle,
            items=len(items),
            blocks=len(composition.blocks),
            injectable=len(head),
            keys=tuple(key for key in keys if key),
            item_keys=item_keys or (None,) * len(items),
            reason=reason,
        )

    async def _item_keys(
        self, tenant: Tenant, items: Sequence[CompositionItem]
    ) -> tuple[str | None, ...]:
        if not items:
            return ()
        versions = [(i.memory_id, i.version) for i in items]
        known = await self._kv.kv_items(tenant.id, self._engine.fingerprint, versions)
        return tuple(known[v].key if v in known else None for v in versions)

    async def finish(
        self, tenant: Tenant, prepared: PreparedRequest, answer: bytes, seconds: float
    ) -> bytes:
        """Adds the report to a complete, successful answer.

        Args:
            answer: the engine's JSON body.
            seconds: from the client's request to now.
        """
        if prepared.memory is None:
            return answer
        if prepared.turn and self._turns:
            self._turns.answered(tenant, prepared.turn, answer, is_stream=False)
        return await self._outcome.whole(tenant, prepared.memory, answer, seconds)

    def finish_stream(
        self,
        tenant: Tenant,
        prepared: PreparedRequest,
        first_s: float,
        seconds: float,
        stream: bytes = b"",
    ) -> None:
        """Notes how a stream went, in the background: the client has its tokens already.

        Args:
            first_s: seconds from the client's request to the first chunk.
            seconds: to the last one.
            stream: all that the engine sent, if `prepared.turn` is to be followed.
        """
        if prepared.turn and self._turns:
            self._turns.answered(tenant, prepared.turn, stream, is_stream=True)
        if prepared.memory is not None:
            self._outcome.streamed(tenant, prepared.memory, first_s, seconds)
