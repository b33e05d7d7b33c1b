"""Zep's `thread` over our threads; what is said in one is remembered word for word, too.

Owns how messages are read, and how Zep's pages are cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from inferscale import InvalidArgumentError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse, refuse_given
from inferscale.compat.zep import _shape
from inferscale.compat.zep._scope import NO_ONTOLOGY, one_id, thread_call, unknown_thread
from inferscale.compat.zep.types import (
    AddThreadMessagesResponse,
    Message,
    MessageListResponse,
    Page,
    SuccessResponse,
    Thread,
    ThreadContextResponse,
    ThreadListResponse,
)

_MAX_PAGE = 1_000
_NO_ADD = {
    "ignore_roles": "every message is a memory; leave out those that should not be",
    "strict_ontology": NO_ONTOLOGY,
}
_NO_TEMPLATE = "the context has one format, which the model's KV is built for"


class ThreadCalls:
    """Methods of `client.thread`, written once for both clients."""

    def create(
        self,
        /,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        user_uuid: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Thread]:
        """A thread of a user. May be repeated; ConflictError if it is another user's."""
        user_id = one_id(user_id=user_id, user_uuid=user_uuid)
        made = yield from call("threads.create", user_id, thread_id=thread_id)
        return _shape.thread(made)

    def add_messages(
        self,
        /,
        thread_id: str | None = None,
        *,
        messages: Sequence[Any],
        thread_uuid: str | None = None,
        ignore_roles: Sequence[str] | None = None,
        return_context: bool | None = None,
        strict_ontology: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[AddThreadMessagesResponse]:
        """Remember messages word for word; they can be found when this returns."""
        given = {"ignore_roles": ignore_roles, "strict_ontology": strict_ontology}
        refuse_given("thread.add_messages", _NO_ADD, given)
        thread_id = one_id(thread_id=thread_id, thread_uuid=thread_uuid)
        uuids: list[str] = []
        for number, (metadata, group) in enumerate(_groups(messages)):
            key = f"{idempotency_key}/{number}" if idempotency_key else None
            added = yield from thread_call(
                "add_messages",
                thread_id,
                group,
                metadata=metadata or None,
                infer=False,
                idempotency_key=key,
            )
            uuids += [each.id for each in added.messages]
        found = (yield from _context(thread_id)) if return_context else ThreadContextResponse()
        return AddThreadMessagesResponse(
            message_uuids=uuids, context=found.context, handle=found.handle
        )

    def get(
        self,
        /,
        thread_id: str | None = None,
        *,
        thread_uuid: str | None = None,
        limit: int | None = None,
        cursor: int | None = None,
        lastn: int | None = None,
    ) -> Flow[MessageListResponse]:
        """Messages, oldest first: all, the last `lastn`, or `limit` from number `cursor` on."""
        thread_id = one_id(thread_id=thread_id, thread_uuid=thread_uuid)
        found = yield from call("threads.get", thread_id)
        if found is None:
            raise unknown_thread(thread_id)
        newest = lastn if lastn is not None and 1 <= lastn <= _MAX_PAGE else None
        page = yield from thread_call(
            "messages", thread_id, newest_first=newest is not None, limit=newest
        )
        everything = [_shape.message(each) for each in page.results]
        start = cursor or 0
        shown = everything[start : None if limit is None else start + limit]
        if lastn is not None:
            shown = everything[::-1] if newest else everything[max(0, len(everything) - lastn) :]
        return MessageListResponse(
            messages=shown,
            row_count=len(shown),
            total_count=page.total,
            user_id=found.user_id,
            user_uuid=found.user_id,
            thread_id=thread_id,
            uuid_=thread_id,
        )

    def list_messages(
        self,
        /,
        thread_uuid: str,
        *,
        page_size: int | None = None,
        cursor: str | None = None,
        order_by: str | None = None,
        order: str | None = None,
    ) -> Flow[Page[Message]]:
        """v4: a page of messages, oldest first (`order="asc"`) or newest first (`"desc"`)."""
        if order_by not in (None, "created_at") or order not in (None, "asc", "desc"):
            refuse("thread.list_messages(order_by, order)", "messages are ordered by created_at")
        page = yield from thread_call(
            "messages", thread_uuid, newest_first=order == "desc", limit=page_size, cursor=cursor
        )
        return Page([_shape.message(each) for each in page.results], page.next_cursor)

    def get_user_context(
        self, /, thread_id: str, *, template_id: str | None = None, mode: str | None = None
    ) -> Flow[ThreadContextResponse]:
        """v3: what is remembered of the thread's user that bears on its last four messages.

        `context` is text, `handle` stands for the same in a request without being prefilled.
        """
        if mode not in (None, "basic"):
            refuse(f"thread.get_user_context(mode={mode!r})", "the context is facts, as in 'basic'")
        refuse_given(
            "thread.get_user_context", {"template_id": _NO_TEMPLATE}, {"template_id": template_id}
        )
        return (yield from _context(thread_id))

    def get_context(
        self, /, thread_uuid: str, *, template_uuid: str | None = None
    ) -> Flow[ThreadContextResponse]:
        """v4's name of `get_user_context`."""
        given = {"template_uuid": template_uuid}
        refuse_given("thread.get_context", {"template_uuid": _NO_TEMPLATE}, given)
        return (yield from _context(thread_uuid))

    def delete(
        self,
        /,
        thread_id: str | None = None,
        *,
        thread_uuid: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Forget a thread: its messages, and what is remembered from them."""
        yield from thread_call("delete", one_id(thread_id=thread_id, thread_uuid=thread_uuid))
        return SuccessResponse(message="Thread deleted")

    def list_(
        self,
        /,
        *,
        user_uuid: str | None = None,
        page_size: int | None = None,
        cursor: str | None = None,
        order_by: str | None = None,
        order: str | None = None,
    ) -> Flow[Page[Thread]]:
        """v4: threads, oldest first: of one user, or all."""
        given = {"order_by": order_by, "order": order}
        refuse_given("thread.list", dict.fromkeys(given, "threads come oldest first"), given)
        found = yield from call("threads.list", user_id=user_uuid, limit=page_size, cursor=cursor)
        return Page([_shape.thread(each) for each in found.results], found.next_cursor)

    def list_all(
        self,
        /,
        *,
        page_number: int | None = None,
        page_size: int | None = None,
        order_by: str | None = None,
        asc: bool | None = None,
    ) -> Flow[ThreadListResponse]:
        """v3: all threads of all users, oldest first; a page of them if `page_size` is given."""
        given = {"order_by": None if order_by == "created_at" else order_by}
        refuse_given("thread.list_all", dict.fromkeys(given, "threads have one order"), given)
        found = yield from call("threads.list")
        threads = [_shape.thread(each) for each in found.results][:: -1 if asc is False else 1]
        start = ((page_number or 1) - 1) * (page_size or 0)
        shown = threads[start : None if page_size is None else start + page_size]
        return ThreadListResponse(threads=shown, row_count=len(shown), total_count=found.total)

    def lookup(
        self,
        /,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        graph_id: str | None = None,
    ) -> Flow[Thread]:
        """v4: the thread with this id; ids and UUIDs are the same here."""
        if thread_id is None:
            raise InvalidArgumentError("thread.lookup needs thread_id.")
        found = yield from call("threads.get", thread_id)
        if found is None:
            raise unknown_thread(thread_id)
        return _shape.thread(found)


def _groups(messages: Sequence[Any]) -> Iterable[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Runs of messages with the same metadata, which `add` takes once for all of them."""
    read = [_read(message) for message in messages]
    for metadata, group in groupby(read, key=lambda pair: pair[0]):
        yield metadata, [message for _, message in group]


def _read(message: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(metadata, message) from one of Zep's messages, ours, or a dict."""
    if not isinstance(message, Mapping) and not hasattr(message, "content"):
        raise InvalidArgumentError(
            f"a message is a {type(message).__name__}; pass Message(role=…, content=…)."
        )
    fields = message if isinstance(message, Mapping) else vars(message)
    said_at = fields.get("created_at") or fields.get("reference_time")
    metadata = _shape.metadata_of(fields.get("metadata"), created_at=said_at)
    sent = {"role": fields.get("role") or "user", "content": fields.get("content")}
    return metadata, sent | ({"name": fields["name"]} if fields.get("name") else {})


def _context(thread_id: str) -> Flow[ThreadContextResponse]:
    handle = (yield from thread_call("get_context", thread_id)).handle
    return ThreadContextResponse(context=handle.text, handle=handle if handle.text else None)
