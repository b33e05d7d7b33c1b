"""Letta's blocks over pinned blocks, as flows.

Owns how agents become scopes: a block attached to an agent is shown in every request with its
`agent_id`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import SCOPE_IDS, Block, NotFoundError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import only_known
from inferscale.compat.letta._block_shape import (
    NO_FIELDS,
    NO_SEARCH,
    page,
    response,
    tags_of,
    with_tags,
)
from inferscale.compat.letta.types import AgentState, ArrayPage, BlockResponse


class BlockCalls:
    """Methods of `client.blocks`, written once for both clients."""

    def create(
        self,
        /,
        *,
        label: str,
        value: str,
        description: str | None = None,
        limit: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        read_only: bool | None = None,
        tags: Sequence[str] | None = None,
        **other: Any,
    ) -> Flow[BlockResponse]:
        """Make a block. No agent has it before `agents.blocks.attach`."""
        only_known("blocks.create", NO_FIELDS, other)
        block = yield from call(
            "blocks.create",
            label,
            value,
            description=description,
            limit=limit,
            read_only=read_only,
            metadata=with_tags(metadata, tags, None),
        )
        return response(block)

    def retrieve(self, /, block_id: str) -> Flow[BlockResponse]:
        """One block. Raises NotFoundError if there is none with this id."""
        return response((yield from _get(block_id)))

    def update(
        self,
        /,
        block_id: str,
        *,
        value: str | None = None,
        label: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        read_only: bool | None = None,
        tags: Sequence[str] | None = None,
        **other: Any,
    ) -> Flow[BlockResponse]:
        """Change what is given, for all agents that have the block."""
        only_known("blocks.update", NO_FIELDS, other)
        changes = {
            "value": value,
            "label": label,
            "description": description,
            "limit": limit,
            "read_only": read_only,
        }
        return (yield from _change((yield from _get(block_id)), changes, metadata, tags))

    def delete(self, /, block_id: str) -> Flow[None]:
        """Forget a block everywhere. Raises NotFoundError if there is none with this id."""
        yield from call("blocks.delete", block_id)

    def list_(
        self,
        /,
        *,
        label: str | None = None,
        label_search: str | None = None,
        value_search: str | None = None,
        description_search: str | None = None,
        tags: Sequence[str] | None = None,
        match_all_tags: bool | None = None,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
        order: str | None = None,
        order_by: str | None = None,
        **other: Any,
    ) -> Flow[ArrayPage[BlockResponse]]:
        """Blocks, oldest first unless `order="desc"`: all, unless `limit` is given.

        Args:
            label_search, value_search, description_search: a part of the text, letter case ignored.
            tags: only those with one of them, or with all if `match_all_tags`.
            after, before: only what comes after or before the block with this id.
        """
        only_known("blocks.list", NO_SEARCH, other)
        found = (yield from call("blocks.list", label=label)).results
        for wanted, field in (
            (label_search, "label"),
            (value_search, "value"),
            (description_search, "description"),
        ):
            part = (wanted or "").casefold()
            found = [each for each in found if part in (getattr(each, field) or "").casefold()]
        if tags:
            enough = all if match_all_tags else any
            found = [each for each in found if enough(t in (tags_of(each) or ()) for t in tags)]
        return page(found, after, before, limit, order, order_by)


class BlockAgentCalls:
    """Methods of `client.blocks.agents`."""

    def list_(
        self,
        /,
        block_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
        order: str | None = None,
        order_by: str | None = None,
        include: Sequence[str] | None = None,
        include_relationships: Sequence[str] | None = None,
    ) -> Flow[ArrayPage[AgentState]]:
        """The agents that have a block, by id."""
        block = yield from _get(block_id)
        ids = {
            scope.agent_id
            for scope in block.scopes
            if scope.agent_id and sum(getattr(scope, name) is not None for name in SCOPE_IDS) == 1
        }
        agents = [AgentState(id=agent_id) for agent_id in sorted(ids)]
        return page(agents, after, before, limit, order, order_by)


class AgentBlockCalls:
    """Methods of `client.agents.blocks`, written once for both clients."""

    def list_(
        self,
        /,
        agent_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
        order: str | None = None,
        order_by: str | None = None,
    ) -> Flow[ArrayPage[BlockResponse]]:
        """An agent's blocks, in the order in which they are shown."""
        found = (yield from call("blocks.shown", agent_id=agent_id)).results
        return page(found, after, before, limit, order, order_by)

    def retrieve(self, /, block_label: str, *, agent_id: str) -> Flow[BlockResponse]:
        """An agent's block by its label. Raises NotFoundError if it has none."""
        return response((yield from _of_agent(block_label, agent_id)))

    def update(
        self,
        /,
        block_label: str,
        *,
        agent_id: str,
        value: str | None = None,
        label: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        read_only: bool | None = None,
        tags: Sequence[str] | None = None,
        **other: Any,
    ) -> Flow[BlockResponse]:
        """Change what is given, for all agents that have the block."""
        only_known("agents.blocks.update", NO_FIELDS, other)
        changes = {
            "value": value,
            "label": label,
            "description": description,
            "limit": limit,
            "read_only": read_only,
        }
        block = yield from _of_agent(block_label, agent_id)
        return (yield from _change(block, changes, metadata, tags))

    def attach(self, /, block_id: str, *, agent_id: str) -> Flow[AgentState]:
        """Give a block to an agent; several may have it. May be repeated."""
        yield from call("blocks.attach", block_id, agent_id=agent_id)
        return (yield from _agent(agent_id))

    def detach(self, /, block_id: str, *, agent_id: str) -> Flow[AgentState]:
        """Take a block from an agent. The block stays."""
        yield from call("blocks.detach", block_id, agent_id=agent_id)
        return (yield from _agent(agent_id))


def _get(block_id: str) -> Flow[Block]:
    block: Block | None = yield from call("blocks.get", block_id)
    if block is None:
        raise NotFoundError(f"there is no block {block_id!r}.")
    return block


def _of_agent(label: str, agent_id: str) -> Flow[Block]:
    found = (yield from call("blocks.shown", agent_id=agent_id)).results
    for block in found:
        if block.label == label:
            return block  # type: ignore[no-any-return]  # an answer of `call` is Any
    raise NotFoundError(f"agent {agent_id!r} has no block {label!r}.")


def _agent(agent_id: str) -> Flow[AgentState]:
    found = (yield from call("blocks.shown", agent_id=agent_id)).results
    return AgentState(id=agent_id, blocks=[response(block) for block in found])


def _change(
    block: Block,
    changes: Mapping[str, Any],
    metadata: Mapping[str, Any] | None,
    tags: Sequence[str] | None,
) -> Flow[BlockResponse]:
    if metadata is not None or tags is not None:
        metadata = with_tags(metadata, tags, block)
    return response((yield from call("blocks.update", block.id, **changes, metadata=metadata)))
