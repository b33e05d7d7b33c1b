"""`AsyncMemory`: the awaiting client. `Memory` documents it; the logic is `_operations`."""

import time
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import _exchange, _operations
from inferscale._async_block_client import AsyncBlocks
from inferscale._async_read_client import AsyncReadMethods
from inferscale._async_thread_client import AsyncThreads
from inferscale._chat_client import AsyncChatMethods
from inferscale._config import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_S, create_config
from inferscale._documents import AsyncDocuments
from inferscale._handle import MemoryHandle
from inferscale._messages import Messages
from inferscale._results import (
    AddResult,
    BuildStatus,
    DeleteResult,
    DeleteWhereResult,
    HistoryRecord,
    UpdateResult,
)
from inferscale._transfer_client import AsyncTransferMethods
from inferscale._transport import AsyncTransport


class AsyncMemory(AsyncReadMethods, AsyncChatMethods, AsyncTransferMethods):
    """`Memory` for asyncio: same arguments, every method but the constructor awaited.

    Use one client within one event loop.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_retries: int = DEFAULT_MAX_RETRIES,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        config = create_config(
            base_url=base_url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries
        )
        self._transport = AsyncTransport(config, http_client)
        self.documents = AsyncDocuments(self._transport)

    @property
    def blocks(self) -> AsyncBlocks:
        """As `Memory.blocks`; its methods are awaited."""
        return AsyncBlocks(self._transport)

    @property
    def threads(self) -> AsyncThreads:
        """As `Memory.threads`; its methods are awaited."""
        return AsyncThreads(self._transport)

    async def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool | None = None,
        async_mode: bool | None = None,
        expires_at: datetime | str | None = None,
        ttl_s: int | None = None,
        idempotency_key: str | None = None,
        **mem0: Any,
    ) -> AddResult:
        """As `Memory.__init__`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        operation = _operations.add(
            messages,
            scope=scope,
            metadata=metadata,
            infer=infer,
            async_mode=async_mode,
            expires_at=expires_at,
            ttl_s=ttl_s,
            idempotency_key=idempotency_key,
            extra=mem0,
        )
        return await self._transport.call(operation)

    async def extraction(self, extraction_id: str) -> AddResult:
        """As `Memory.extraction`."""
        return await self._transport.call(_operations.extraction(extraction_id))

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        data: str | None = None,
        expires_at: datetime | str | None = None,
        ttl_s: int | None = None,
    ) -> UpdateResult:
        """As `Memory.update`."""
        return await self._transport.call(
            _operations.update(
                memory_id,
                text=text,
                data=data,
                metadata=metadata,
                expires_at=expires_at,
                ttl_s=ttl_s,
            )
        )

    async def delete(self, memory_id: str) -> DeleteResult:
        """As `Memory.delete`."""
        return await self._transport.call(_operations.delete(memory_id))

    async def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> DeleteResult:
        """As `Memory.delete_all`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.call(_operations.delete_all(scope))

    async def delete_where(
        self,
        filters: Mapping[str, Any],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        dry_run: bool = False,
    ) -> DeleteWhereResult:
        """As `Memory.delete_where`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return await self._transport.call(
            _operations.delete_where(filters, scope=scope, dry_run=dry_run)
        )

    async def history(self, memory_id: str) -> list[HistoryRecord]:
        """As `Memory.history`."""
        return await self._transport.call(_operations.history(memory_id))

    async def get_handle(self, handle_id: str) -> MemoryHandle:
        """As `Memory.get_handle`."""
        return await self._transport.call(_operations.get_handle(handle_id))

    async def builds(self) -> BuildStatus:
        """As `Memory.builds`."""
        return await self._transport.call(_operations.builds())

    async def wait_until_ready(
        self, timeout_s: float = 60.0, *, builds: bool = False
    ) -> BuildStatus:
        """As `Memory.wait_until_ready`."""
        flow = _exchange.wait_until_ready(timeout_s=timeout_s, builds=builds, clock=time.monotonic)
        return await self._transport.run(flow)

    async def close(self) -> None:
        """As `Memory.close`."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.config.base_url!r})"
