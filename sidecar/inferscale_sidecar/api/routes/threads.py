"""`/v1/threads`: decode, call `ThreadService`, encode."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, status
from pydantic import Field

from inferscale.protocol import threads as wire
from inferscale.protocol.memory import DeleteResponse, Id, Wire
from inferscale_sidecar import core
from inferscale_sidecar.api.answers import additions_of
from inferscale_sidecar.api.auth import current_tenant, writing_tenant
from inferscale_sidecar.api.cursor import cursor_of, read_cursor
from inferscale_sidecar.api.routes.memory import receipt
from inferscale_sidecar.api.routes.recall import handle_to_wire
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.threads import MAX_PAGE, ThreadService
from inferscale_sidecar.store.summary_port import ThreadSummary

Reader = Annotated[core.Tenant, Depends(current_tenant)]
Writer = Annotated[core.Tenant, Depends(writing_tenant)]


class ThreadQuery(Wire):
    """Query of `GET /v1/threads`."""

    user_id: Id | None = None
    agent_id: Id | None = None
    app_id: Id | None = None
    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: str | None = Field(default=None, max_length=64)


class MessageQuery(Wire):
    """Query of `GET /v1/threads/{id}/messages`."""

    limit: int = Field(default=100, ge=1, le=MAX_PAGE)
    cursor: str | None = Field(default=None, max_length=64)
    order: Literal["asc", "desc"] = "asc"


class DeleteQuery(Wire):
    """Query of `DELETE /v1/threads/{id}`."""

    keep_memories: bool = False


def create_thread_router(threads: ThreadService, recall: RecallService) -> APIRouter:
    """The routes over one service; `recall` shows handles."""
    router = APIRouter(tags=["threads"])
    _add_thread_routes(router, threads)
    _add_message_routes(router, threads)

    @router.post("/v1/threads/{thread_id}/context")
    async def context(
        thread_id: str, body: wire.ContextRequest, tenant: Reader
    ) -> wire.ContextResponse:
        found = await threads.context(
            tenant,
            thread_id,
            k=body.k,
            last=body.last,
            num_messages=body.messages,
            threshold=body.threshold,
            filters=body.filters,
            max_tokens=body.max_tokens,
            ttl_s=body.ttl_s,
        )
        handle = handle_to_wire(await recall.show(found.composition))
        return wire.ContextResponse(
            **vars(handle),
            thread_id=thread_id,
            messages=[_message(m) for m in found.messages],
            summary=_summary(found.summary) if found.summary else None,
        )

    return router


def _add_thread_routes(router: APIRouter, threads: ThreadService) -> None:
    @router.post("/v1/threads", status_code=status.HTTP_201_CREATED)
    async def create(body: wire.CreateThreadRequest, tenant: Writer) -> wire.Thread:
        scope = core.Scope(body.user_id, body.agent_id, app_id=body.app_id)
        return _thread(await threads.create(tenant, body.id, scope, body.metadata))

    @router.get("/v1/threads")
    async def list_threads(
        query: Annotated[ThreadQuery, Query()], tenant: Reader
    ) -> wire.ThreadListResponse:
        scope = core.Scope(query.user_id, query.agent_id, app_id=query.app_id)
        after = read_cursor(query.cursor)
        page = await threads.list(tenant, scope, limit=query.limit, after=after)
        return wire.ThreadListResponse(
            results=[_thread(each) for each in page.threads],
            total=page.total,
            next_cursor=cursor_of(page.next_after),
        )

    @router.get("/v1/threads/{thread_id}")
    async def get(thread_id: str, tenant: Reader) -> wire.Thread:
        return _thread(await threads.get(tenant, thread_id))

    @router.delete("/v1/threads/{thread_id}")
    async def delete(
        thread_id: str, query: Annotated[DeleteQuery, Query()], tenant: Writer
    ) -> DeleteResponse:
        removed = await threads.delete(tenant, thread_id, keep_memories=query.keep_memories)
        return DeleteResponse(**receipt(removed))


def _add_message_routes(router: APIRouter, threads: ThreadService) -> None:
    @router.post("/v1/threads/{thread_id}/messages")
    async def add(
        thread_id: str,
        body: wire.AddMessagesRequest,
        tenant: Writer,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> wire.AddMessagesResponse:
        added = await threads.add_messages(
            tenant,
            thread_id,
            body.messages,
            metadata=body.metadata,
            infer=body.infer,
            wait=not body.async_mode,
            idempotency_key=idempotency_key,
        )
        remembered = additions_of(added.additions)
        return wire.AddMessagesResponse(
            messages=[_message(each) for each in added.messages], **vars(remembered)
        )

    @router.get("/v1/threads/{thread_id}/messages")
    async def list_messages(
        thread_id: str, query: Annotated[MessageQuery, Query()], tenant: Reader
    ) -> wire.MessageListResponse:
        page = await threads.messages(
            tenant,
            thread_id,
            limit=query.limit,
            start=read_cursor(query.cursor),
            newest_first=query.order == "desc",
        )
        return wire.MessageListResponse(
            results=[_message(each) for each in page.messages],
            total=page.total,
            next_cursor=cursor_of(page.next_from),
        )

    @router.delete("/v1/threads/{thread_id}/messages/{message_id}")
    async def delete_message(thread_id: str, message_id: str, tenant: Writer) -> DeleteResponse:
        removed = await threads.delete_message(tenant, thread_id, message_id)
        return DeleteResponse(**receipt(removed))


def _thread(thread: core.Thread) -> wire.Thread:
    return wire.Thread(
        id=thread.id,
        user_id=thread.scope.user_id or "",
        agent_id=thread.scope.agent_id,
        app_id=thread.scope.app_id,
        metadata=thread.metadata,
        created_at=thread.created_at,
        updated_at=thread.updated_at,
    )


def _message(message: core.ThreadMessage) -> wire.ThreadMessage:
    return wire.ThreadMessage(
        id=message.id,
        role=message.role,
        content=message.content,
        name=message.name,
        timestamp=message.said_at,
        metadata=message.metadata,
        created_at=message.created_at,
    )


def _summary(summary: ThreadSummary) -> wire.ThreadSummary:
    return wire.ThreadSummary(
        state=summary.state,
        text=summary.text,
        messages=summary.num_messages,
        error=summary.error,
        updated_at=summary.updated_at,
    )
