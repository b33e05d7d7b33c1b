"""`Memory`: the blocking client. Signatures and documentation; the logic is in `_operations`.

Invariant: `AsyncMemory` has the same methods with the same parameters (a test compares them).
"""

import time
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import _exchange, _operations
from inferscale._block_client import Blocks
from inferscale._chat_client import ChatMethods
from inferscale._config import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_S, create_config
from inferscale._documents import Documents
from inferscale._handle import MemoryHandle
from inferscale._messages import Messages
from inferscale._read_client import ReadMethods
from inferscale._results import (
    AddResult,
    BuildStatus,
    DeleteResult,
    DeleteWhereResult,
    HistoryRecord,
    UpdateResult,
)
from inferscale._thread_client import Threads
from inferscale._transfer_client import TransferMethods
from inferscale._transport import SyncTransport


class Memory(ReadMethods, ChatMethods, TransferMethods):
    """Long-term memory of an agent, kept by an InferScale sidecar.

    Args:
        base_url: the sidecar; default INFERSCALE_BASE_URL, then http://127.0.0.1:8420.
        api_key: default INFERSCALE_API_KEY; None if the sidecar asks for none.
        timeout_s: seconds to wait for an answer.
        max_retries: further attempts after a failed connection, 429 or 503.
        http_client: your own `httpx.Client` (proxies, TLS, tests). It is not closed by `close`.

    `documents` is a store of JSON objects beside the memories (see `Documents`).

    Nothing is sent before the first call. One client may be used from many threads.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_retries: int = DEFAULT_MAX_RETRIES,
        http_client: httpx.Client | None = None,
    ) -> None:
        config = create_config(
            base_url=base_url, api_key=api_key, timeout_s=timeout_s, max_retries=max_retries
        )
        self._transport = SyncTransport(config, http_client)
        self.documents = Documents(self._transport)

    @property
    def blocks(self) -> Blocks:
        """Pinned blocks: text that is part of every recall, handle and chat with memory."""
        return Blocks(self._transport)

    @property
    def threads(self) -> Threads:
        """Conversations: messages word for word, and what is remembered that bears on them."""
        return Threads(self._transport)

    def add(
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
        """Remember. The result can be read at once; its KV is built in the background.

        Args:
            messages: a text, a message, or a list of them.
            user_id, agent_id, run_id, app_id: whose memory; at least one.
            metadata: any JSON object, for `filters`.
            infer: True extracts facts with an LLM, False stores verbatim, None as the sidecar does.
                If the LLM fails the messages are stored as they are, with `status` "raw" and the
                `error`; adding them again is safe.
            async_mode: True to return once the messages are stored; facts come in the background,
                see `extraction`.
            expires_at, ttl_s: until when it is there: a time with its offset, or seconds from now.
                Added again, it lives as long as the longer of the two. Default: for good.
            idempotency_key: adds with the same key are one add. Default: a new key for each call,
                so that the SDK's own retries never add twice.
            mem0: other arguments of Mem0's are refused with a reason, unless they ask for nothing.
        """
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
        return self._transport.call(operation)

    def extraction(self, extraction_id: str) -> AddResult:
        """How the extraction of an earlier `add` stands (`result.extraction.id`), and its facts."""
        return self._transport.call(_operations.extraction(extraction_id))

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        data: str | None = None,
        expires_at: datetime | str | None = None,
        ttl_s: int | None = None,
    ) -> UpdateResult:
        """A new version of a memory. What is None stays; `metadata` replaces. `data` means `text`.

        `expires_at="never"` makes it live for good.

        Raises:
            NotFoundError: there is no such memory.
        """
        return self._transport.call(
            _operations.update(
                memory_id,
                text=text,
                data=data,
                metadata=metadata,
                expires_at=expires_at,
                ttl_s=ttl_s,
            )
        )

    def delete(self, memory_id: str) -> DeleteResult:
        """Forget one memory and its KV. Raises NotFoundError if there is none with this id."""
        return self._transport.call(_operations.delete(memory_id))

    def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> DeleteResult:
        """Forget all that carries all of the given ids; at least one. No wildcards.

        That is memories, threads and pinned blocks; of a user, if no other id is given, documents
        too. The result counts what went.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.call(_operations.delete_all(scope))

    def delete_where(
        self,
        filters: Mapping[str, Any],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        dry_run: bool = False,
    ) -> DeleteWhereResult:
        """Forget what passes `filters` in a scope. With `dry_run` nothing goes: see what would.

        Args:
            filters: conditions as for `search`, at least one.
            user_id, agent_id, run_id, app_id: whose memories; at least one, here or in `filters`.
            dry_run: True to remove nothing.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.call(_operations.delete_where(filters, scope=scope, dry_run=dry_run))

    def history(self, memory_id: str) -> list[HistoryRecord]:
        """All changes of a memory, its deletion included; [] if there never was such a one."""
        return self._transport.call(_operations.history(memory_id))

    def get_handle(self, handle_id: str) -> MemoryHandle:
        """The handle with this id. Raises NotFoundError if it is unknown, foreign or expired."""
        return self._transport.call(_operations.get_handle(handle_id))

    def builds(self) -> BuildStatus:
        """How far the KV of this tenant's memories is behind their text."""
        return self._transport.call(_operations.builds())

    def wait_until_ready(self, timeout_s: float = 60.0, *, builds: bool = False) -> BuildStatus:
        """Wait until requests can be served; with `builds` also until no memory waits for its KV.

        Builds that failed are not waited for: look at `failed` in the result.

        Raises:
            NotReadyError: `timeout_s` seconds were not enough; the message says what was missing.
            APIStatusError: waiting would not help (a wrong API key, for example).
        """
        flow = _exchange.wait_until_ready(timeout_s=timeout_s, builds=builds, clock=time.monotonic)
        return self._transport.run(flow)

    def close(self) -> None:
        """Close the connections. The client cannot be used afterwards."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.config.base_url!r})"
