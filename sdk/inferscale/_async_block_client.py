"""`memory.blocks` of the awaiting client. `_block_client` documents it."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import _block_operations, _block_tools
from inferscale._block_results import Block, BlockHistoryRecord, BlockList
from inferscale._results import DeleteResult
from inferscale._transport import AsyncTransport


class AsyncBlocks:
    """`Blocks` for asyncio: same arguments, every method awaited."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        label: str,
        value: str = "",
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Block:
        """As `Blocks.create`."""
        fields = {
            "label": label,
            "value": value,
            "description": description,
            "limit": limit,
            "read_only": read_only,
            "metadata": metadata,
        }
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.call(_block_operations.create(fields, scope=scope))

    async def get(self, block_id: str) -> Block | None:
        """As `Blocks.get`."""
        return await self._transport.call(_block_operations.get(block_id))

    async def update(
        self,
        block_id: str,
        *,
        value: str | None = None,
        label: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_version: int | None = None,
    ) -> Block:
        """As `Blocks.update`."""
        changes = {
            "value": value,
            "label": label,
            "description": description,
            "limit": limit,
            "read_only": read_only,
            "metadata": metadata,
        }
        operation = _block_operations.update(block_id, changes, if_version=if_version)
        return await self._transport.call(operation)

    async def append(self, block_id: str, text: str, *, if_version: int | None = None) -> Block:
        """As `Blocks.append`."""
        operation = _block_operations.append(block_id, text, if_version=if_version)
        return await self._transport.call(operation)

    async def replace(
        self, block_id: str, old: str, new: str, *, if_version: int | None = None
    ) -> Block:
        """As `Blocks.replace`."""
        operation = _block_operations.replace(block_id, old, new, if_version=if_version)
        return await self._transport.call(operation)

    async def attach(
        self,
        block_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> Block:
        """As `Blocks.attach`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.call(_block_operations.attach(block_id, scope))

    async def detach(
        self,
        block_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> Block:
        """As `Blocks.detach`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.call(_block_operations.detach(block_id, scope))

    async def delete(self, block_id: str) -> DeleteResult:
        """As `Blocks.delete`."""
        return await self._transport.call(_block_operations.delete(block_id))

    async def history(self, block_id: str) -> Sequence[BlockHistoryRecord]:
        """As `Blocks.history`."""
        return await self._transport.call(_block_operations.history(block_id))

    async def shown(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> BlockList:
        """As `Blocks.shown`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.call(_block_operations.shown(scope))

    async def list(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        label: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> BlockList:
        """As `Blocks.list`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        if limit is None and cursor is None:
            return await self._transport.run(
                _block_operations.list_all(scope, label, self._transport.policy)
            )
        operation = _block_operations.list_page(scope, label=label, limit=limit, cursor=cursor)
        return await self._transport.call(operation)

    async def run_tool(
        self,
        call: Any,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> dict[str, str]:
        """As `Blocks.run_tool`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.run(_block_tools.run_tool(call, scope, self._transport.policy))
