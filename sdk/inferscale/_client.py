"""`Memory`: the blocking client. Signatures and documentation; the logic is in `_operations`.

Invariant: `AsyncMemory` has the same methods with the same parameters (a test compares them).
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import _exchange, _operations
from inferscale._block_client import Blocks
from inferscale._chat_client import ChatMethods
from inferscale._config import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_S, create_config
from inferscale._dialect import one_limit
from inferscale._documents import Documents
from inferscale._handle import MemoryHandle
from inferscale._messages import Messages
from inferscale._results import (
    AddResult,
    BuildStatus,
    DeleteResult,
    DeleteWhereResult,
    HistoryRecord,
    ListResult,
    MemoryRecord,
    SearchResult,
    UpdateResult,
)
from inferscale._transport import SyncTransport
from inferscale.protocol.memory import SearchMode


class Memory(ChatMethods):
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

    def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool | None = None,
        async_mode: bool | None = None,
        idempotency_key: str | None = None,
        **mem0: Any,
    ) -> AddResult:
        """Remember. The result can be read at once; its KV is built in the background.

        Args:
            messages: a text, a message, or a list of them.
            user_id, agent_id, run_id: whose memory; at least one.
            metadata: any JSON object, for `filters`.
            infer: True extracts facts with an LLM, False stores verbatim, None as the sidecar does.
                If the LLM fails the messages are stored as they are, with `status` "raw" and the
                `error`; adding them again is safe.
            async_mode: True to return once the messages are stored; facts come in the background,
                see `extraction`.
            idempotency_key: adds with the same key are one add. Default: a new key for each call,
                so that the SDK's own retries never add twice.
            mem0: other arguments of Mem0's are refused with a reason, unless they ask for nothing.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        operation = _operations.add(
            messages,
            scope=scope,
            metadata=metadata,
            infer=infer,
            async_mode=async_mode,
            idempotency_key=idempotency_key,
            extra=mem0,
        )
        return self._transport.call(operation)

    def extraction(self, extraction_id: str) -> AddResult:
        """How the extraction of an earlier `add` stands (`result.extraction.id`), and its facts."""
        return self._transport.call(_operations.extraction(extraction_id))

    def get(self, memory_id: str) -> MemoryRecord | None:
        """One memory, or None if there is none with this id."""
        return self._transport.call(_operations.get(memory_id))

    def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        cursor: str | None = None,
        **mem0: Any,
    ) -> ListResult:
        """Memories of a scope, newest first: all, or one page if `limit` or `cursor` is given.

        Args:
            user_id, agent_id, run_id: whose memories; at least one, here or in `filters`.
            filters: ids only, as in Mem0 2.x; anything else is refused.
            limit, top_k: size of the page.
            cursor: `next_cursor` of the page before.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        ids = _operations.list_scope(scope=scope, filters=filters, extra=mem0)
        size = one_limit(None, limit=limit, top_k=top_k)
        if size is None and cursor is None:
            return self._transport.run(_exchange.list_all(ids, self._transport.policy))
        return self._transport.call(_operations.list_page(ids, limit=size, cursor=cursor))

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        mode: SearchMode | None = None,
        diversity: float | None = None,
        recency_days: float | None = None,
        explain: bool | None = None,
        **mem0: Any,
    ) -> SearchResult:
        """Memories like `query`, best first. Ids may stand in `filters`, as in Mem0 2.x.

        Args:
            limit, top_k: at most so many (default 10).
            threshold: least score, in [-1, 1].
            filters: conditions on metadata.
            mode: "hybrid" (meaning and shared words, the default), "dense" or "keyword".
            diversity: 0 to 1; how much a hit loses for being like a better one.
            recency_days: prefer what is new; after so many days the bonus is half.
            explain: True to have each hit's `details` say what its score is made of.
        """
        operation = _operations.search(
            query,
            scope={"user_id": user_id, "agent_id": agent_id, "run_id": run_id},
            limit=one_limit(None, limit=limit, top_k=top_k),
            threshold=threshold,
            filters=filters,
            ranking={
                "mode": mode,
                "diversity": diversity,
                "recency_days": recency_days,
                "explain": explain,
            },
            extra=mem0,
        )
        return self._transport.call(operation)

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        data: str | None = None,
    ) -> UpdateResult:
        """A new version of a memory. What is None stays; `metadata` replaces. `data` means `text`.

        Raises:
            NotFoundError: there is no such memory.
        """
        return self._transport.call(
            _operations.update(memory_id, text=text, data=data, metadata=metadata)
        )

    def delete(self, memory_id: str) -> DeleteResult:
        """Forget one memory and its KV. Raises NotFoundError if there is none with this id."""
        return self._transport.call(_operations.delete(memory_id))

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> DeleteResult:
        """Forget all memories that carry all of the given ids; at least one. No wildcards."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return self._transport.call(_operations.delete_all(scope))

    def delete_where(
        self,
        filters: Mapping[str, Any],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        dry_run: bool = False,
    ) -> DeleteWhereResult:
        """Forget what passes `filters` in a scope. With `dry_run` nothing goes: see what would.

        Args:
            filters: conditions as for `search`, at least one.
            user_id, agent_id, run_id: whose memories; at least one, here or in `filters`.
            dry_run: True to remove nothing.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        return self._transport.call(_operations.delete_where(filters, scope=scope, dry_run=dry_run))

    def history(self, memory_id: str) -> list[HistoryRecord]:
        """All changes of a memory, its deletion included; [] if there never was such a one."""
        return self._transport.call(_operations.history(memory_id))

    def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        mode: SearchMode | None = None,
        diversity: float | None = None,
        recency_days: float | None = None,
        max_tokens: int | None = None,
        ttl_s: int | None = None,
    ) -> MemoryHandle:
        """Freeze pinned blocks and the memories for `query` into a handle, to attach to requests.

        Args:
            k: at most so many (default 20).
            threshold, filters: as in `search`.
            max_tokens: at most so many tokens of text: pinned blocks first, then the best.
            ttl_s: seconds until the handle expires (default one day).
        """
        operation = _operations.recall(
            query,
            scope={"user_id": user_id, "agent_id": agent_id, "run_id": run_id},
            k=k,
            threshold=threshold,
            filters=filters,
            ranking={"mode": mode, "diversity": diversity, "recency_days": recency_days},
            max_tokens=max_tokens,
            ttl_s=ttl_s,
        )
        return self._transport.call(operation)

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
