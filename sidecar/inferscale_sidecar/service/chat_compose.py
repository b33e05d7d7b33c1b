"""Puts memory into the body of a request: its text, and beside it what the engine may inject.

Owns where the text stands and what is built ahead for it. Invariant: the text does not depend on
what can be injected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferscale.protocol.chat import MemoryField
from inferscale.protocol.engine import Shown, inject_params, show_params
from inferscale_sidecar.build.exact import Rendering
from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.prefix_finder import At, PrefixFinder, leading
from inferscale_sidecar.compose.frame import MemoryFrame, Placement
from inferscale_sidecar.compose.head import Openings
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.compose.shown import shown_blocks, shown_items
from inferscale_sidecar.core import Composition, PinnedBlock, Tail, Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.service.chat_fields import Endpoint, template_options
from inferscale_sidecar.service.chat_place import Place
from inferscale_sidecar.service.chat_position import PositionRule
from inferscale_sidecar.service.chat_report import MemoryPlan
from inferscale_sidecar.service.chat_turns import Turn

HISTORY_WAIT_S = 60.0
"""A history that no cache holds is prefilled before its request, which finds it there and computes
none of it again: waiting costs no more than not waiting."""


class Composer:
    """See the module.

    Args:
        engine: what signs, and serves.
        frame: renders the block.
        places: where it stands in each endpoint's body.
        placement: where the model's template lets it stand in the system message.
        rule: decides between that and behind the history.
        finder, warmer: as in `ChatService`.
        is_lazy: whether handles that are used again become exact.
    """

    def __init__(
        self,
        engine: Engine,
        frame: MemoryFrame,
        places: Mapping[Endpoint, Place],
        placement: Placement,
        *,
        rule: PositionRule,
        finder: PrefixFinder | None,
        warmer: PrefixWarmer | None,
        is_lazy: bool,
    ) -> None:
        self._engine, self._frame, self._rule = engine, frame, rule
        self._places, self._placement = places, placement
        self._finder, self._warmer = finder, warmer
        self._is_lazy = is_lazy

    async def position(self, endpoint: Endpoint, body: Mapping[str, Any], field: MemoryField) -> At:
        """Where the memory of a client's body goes."""
        place = self._places[endpoint]
        return await self._rule.choose(field.position, place, body, field.handle)

    async def compose(
        self,
        tenant: Tenant,
        endpoint: Endpoint,
        body: dict[str, Any],
        composition: Composition,
        plan: MemoryPlan,
        at: At,
        tail: Tail,
    ) -> MemoryPlan:
        """Puts the block into the body's text, and what is to be injected beside it.

        Args:
            tail: whose conversation it is, if the block stands behind one.
        """
        plan = replace(plan, position=at)
        pinned = composition.blocks
        block = self._frame.render([item.text for item in composition.items], pinned)
        prefix = await self._prefix(endpoint, body, pinned, at) if plan.keys else ()
        self._places[endpoint].put(body, block, at)
        if plan.reason is not None or not plan.items:
            if self._finder and self._engine.is_ready:  # with our connector
                self._add(body, self._shown(tenant, plan, composition))
            return plan
        if prefix and self._warmer:
            is_last = at == "last"
            await self._warmer.ensure(
                tenant,
                prefix,
                cache_salt=body["cache_salt"],
                pinned=pinned,
                tail=tail if is_last else None,
                max_wait_s=HISTORY_WAIT_S if is_last else None,
            )
        ours = inject_params(
            self._engine.secret,
            request_id=plan.request_id,
            salt=tenant_tag(tenant),
            items=plan.keys,
            stays_exact=self._is_lazy and plan.handle is not None,
            shows=self._shows(plan, composition),
        )
        self._add(body, ours)
        plan = replace(plan, prefix_ids=prefix)
        if self._is_rendered_again(endpoint, plan):
            shown = self._shown(tenant, plan, composition)
            plan = replace(plan, rendering=self._rendering(endpoint, plan, body, shown))
        return plan

    def _add(self, body: dict[str, Any], params: Mapping[str, Any]) -> None:
        body["kv_transfer_params"] = {**(body.get("kv_transfer_params") or {}), **params}

    def _shows(self, plan: MemoryPlan, composition: Composition) -> tuple[Shown, ...]:
        """What can be forgotten of the prompt."""
        openings = self._finder.openings if self._finder else Openings()
        items = shown_items(composition.items, plan.item_keys, openings)
        return (*shown_blocks(composition.blocks, openings), *items)

    def _shown(self, tenant: Tenant, plan: MemoryPlan, composition: Composition) -> dict[str, Any]:
        """`kv_transfer_params` of a request that has the memory as text."""
        return show_params(
            self._engine.secret,
            request_id=plan.request_id,
            salt=tenant_tag(tenant),
            shows=self._shows(plan, composition),
        )

    async def _prefix(
        self, endpoint: Endpoint, body: Mapping[str, Any], pinned: Sequence[PinnedBlock], at: At
    ) -> tuple[int, ...]:
        """Token ids before the first item; empty if they cannot be told."""
        if self._finder is None:
            return ()
        if endpoint == "completions":
            return await self._finder.for_prompt(pinned)
        rendered = self._places[endpoint].rendered(body, at)
        return await self._finder.for_chat(*rendered, pinned, position=at) if rendered else ()

    def turn(
        self,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        sent: Mapping[str, Any],
        composition: Composition,
        plan: MemoryPlan,
        tail: Tail,
    ) -> Turn | None:
        """What the next turn's prompt will begin with; None if there is nothing to prepare.

        Args:
            body: the client's.
            sent: what the engine gets.
            composition, plan: of its memory.
            tail: whose conversation it is.
        """
        if plan.position != "last" or plan.reason or not plan.items:
            return None
        rendered = self._places[endpoint].rendered(body, "last")
        if rendered is None or rendered[0][-1].get("role") == "assistant":  # it is continued
            return None
        return Turn(*rendered, composition.blocks, sent["cache_salt"], tail)

    def _is_rendered_again(self, endpoint: Endpoint, plan: MemoryPlan) -> bool:
        if not self._is_lazy or plan.handle is None or not plan.keys:
            return False
        # Only vLLM knows how it renders the others; a `last` one stands elsewhere in the next turn.
        return endpoint in ("chat", "completions") and plan.position != "last"

    def _rendering(
        self,
        endpoint: Endpoint,
        plan: MemoryPlan,
        body: Mapping[str, Any],
        shown: Mapping[str, Any],
    ) -> Rendering:
        rendered: dict[str, Any] = {"prompt": body.get("prompt")}
        if endpoint == "chat":
            messages = leading(body["messages"], self._placement)
            rendered = {"messages": messages, **template_options(body)}
        return Rendering(str(plan.handle), rendered, body["cache_salt"], shown)
