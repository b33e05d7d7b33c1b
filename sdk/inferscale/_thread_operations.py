"""One pure function per thread endpoint: arguments → `Operation`. As `_operations`."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from inferscale._dialect import Scope, optional_ids
from inferscale._exchange import PAGE_SIZE, Flow, every_page
from inferscale._handle import create_handle
from inferscale._messages import Messages, memory_messages
from inferscale._operation import Operation, reads
from inferscale._operations import check_key
from inferscale._results import DeleteResult
from inferscale._retry import RetryPolicy
from inferscale._thread_results import (
    AddMessagesResult,
    MessageList,
    Thread,
    ThreadContext,
    ThreadList,
    ThreadMessage,
    ThreadSummary,
)
from inferscale._validate import encode_model, path_id
from inferscale.protocol import threads as wire


def create(fields: Mapping[str, Any]) -> Operation[Thread]:
    # A name of our own makes it repeatable: the second of two finds the thread of the first.
    named = {**fields, "id": fields.get("id") or f"thread-{uuid.uuid4()}"}
    content = encode_model(wire.CreateThreadRequest, named)
    return Operation("POST", "/v1/threads", reads(Thread), content=content)


def get(thread_id: str) -> Operation[Thread | None]:
    read: Callable[[httpx.Response], Thread | None] = reads(Thread)
    return Operation("GET", _path(thread_id), read, if_missing=lambda: None)


def list_page(scope: Scope, *, limit: int | None, cursor: str | None) -> Operation[ThreadList]:
    params = {**optional_ids(scope), **_page(limit, cursor)}
    return Operation("GET", "/v1/threads", reads(ThreadList), params=params)


def list_all(scope: Scope, policy: RetryPolicy) -> Flow[ThreadList]:
    """All pages as one."""

    def page_at(cursor: str | None) -> Operation[Any]:
        return list_page(scope, limit=PAGE_SIZE, cursor=cursor)

    results, total = yield from every_page(page_at, policy)
    return ThreadList(results=results, total=total)


def add_messages(
    thread_id: str,
    messages: Messages,
    *,
    metadata: Mapping[str, Any] | None,
    infer: bool | None,
    async_mode: bool | None,
    idempotency_key: str | None,
) -> Operation[AddMessagesResult]:
    fields = {
        "messages": memory_messages(messages),
        "metadata": metadata,
        "infer": infer,
        "async_mode": async_mode,
    }
    return Operation(
        "POST",
        f"{_path(thread_id)}/messages",
        reads(AddMessagesResult),
        content=encode_model(wire.AddMessagesRequest, fields),
        # The same key on every attempt: the sidecar adds once, however often it hears this.
        headers={"Idempotency-Key": check_key(idempotency_key) or uuid.uuid4().hex},
    )


def messages_page(
    thread_id: str, *, newest_first: bool, limit: int | None, cursor: str | None
) -> Operation[MessageList]:
    params = {"order": "desc" if newest_first else "asc", **_page(limit, cursor)}
    path = f"{_path(thread_id)}/messages"
    return Operation("GET", path, reads(MessageList), params=params)


def all_messages(thread_id: str, newest_first: bool, policy: RetryPolicy) -> Flow[MessageList]:
    """All pages as one."""

    def page_at(cursor: str | None) -> Operation[Any]:
        return messages_page(thread_id, newest_first=newest_first, limit=PAGE_SIZE, cursor=cursor)

    results, total = yield from every_page(page_at, policy)
    return MessageList(results=results, total=total)


def context(thread_id: str, fields: Mapping[str, Any]) -> Operation[ThreadContext]:
    content = encode_model(wire.ContextRequest, fields)
    return Operation("POST", f"{_path(thread_id)}/context", _read_context, content=content)


def delete_message(thread_id: str, message_id: str) -> Operation[DeleteResult]:
    path = f"{_path(thread_id)}/messages/{path_id(message_id)}"
    return Operation("DELETE", path, _deleted("Message deleted."), repeatable=False)


def delete(thread_id: str, *, keep_memories: bool) -> Operation[DeleteResult]:
    params = {"keep_memories": "true"} if keep_memories else {}
    read = _deleted("Thread deleted.")
    return Operation("DELETE", _path(thread_id), read, params=params, repeatable=False)


def _read_context(response: httpx.Response) -> ThreadContext:
    body = response.json()
    messages = [ThreadMessage.model_validate(each) for each in body["messages"]]
    summary = body.get("summary")
    return ThreadContext(
        body["thread_id"],
        create_handle(body),
        tuple(messages),
        None if summary is None else ThreadSummary.model_validate(summary),
    )


def _deleted(message: str) -> Callable[[httpx.Response], DeleteResult]:
    return lambda response: DeleteResult(**{**response.json(), "message": message})


def _page(limit: int | None, cursor: str | None) -> dict[str, str]:
    given = {"limit": limit, "cursor": cursor}
    return {name: str(value) for name, value in given.items() if value is not None}


def _path(thread_id: str) -> str:
    return f"/v1/threads/{path_id(thread_id)}"
