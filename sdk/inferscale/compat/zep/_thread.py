"""Zep's `thread` over our scopes: a thread is a run of its user, its messages are memories.

Owns what a thread's context is recalled by: its last four messages, as in Zep v4.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from inferscale import ConflictError, InvalidArgumentError
from inferscale.compat._flow import Flow, call
from inferscale.compat._refuse import refuse, refuse_given
from inferscale.compat.zep import _shape
from inferscale.compat.zep._scope import NO_ONTOLOGY, Owners, list_newest, one_id
from inferscale.compat.zep._user import thread, threads_of
from inferscale.compat.zep.types import (
    AddThreadMessagesResponse,
    Message,
    MessageListResponse,
    Page,
    SuccessResponse,
    Thread,
    ThreadContextResponse,
)

_CONTEXT_MESSAGES = 4
_MAX_QUERY_CHARS = 8_000
_K = 20
_NO_ADD = {
    "ignore_roles": "every message is a memory; leave out those that should not be",
    "strict_ontology": NO_ONTOLOGY,
}
_NO_TEMPLATE = "the context has one format, which the model's KV is built for"


class ThreadCalls:
    """Methods of `client.thread`, written once for both clients."""

    _owners: Owners

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
        thread_id = str(uuid.uuid4()) if thread_id is None else thread_id
        owner = yield from self._owners.find(thread_id)
        if owner is not None and owner != user_id:
            raise ConflictError(f"thread {thread_id!r} belongs to another user.")
        self._owners.put(thread_id, user_id)
        return thread(thread_id, user_id)

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
        scope = yield from self._owners.scope(one_id(thread_id=thread_id, thread_uuid=thread_uuid))
        uuids: list[str] = []
        for number, (metadata, group) in enumerate(_groups(messages)):
            key = f"{idempotency_key}/{number}" if idempotency_key else None
            added = yield from call(
                "add",
                group,
                **scope,
                metadata=metadata or None,
                # Word for word: messages that facts were extracted from are no longer listed.
                infer=False,
                idempotency_key=key,
            )
            uuids += [each.id for each in added.results]
        found = (yield from _context(scope)) if return_context else ThreadContextResponse()
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
        scope = yield from self._owners.scope(thread_id)
        everything = yield from _messages(scope)
        start = cursor or 0
        shown = everything[start : None if limit is None else start + limit]
        if lastn is not None:
            shown = everything[max(0, len(everything) - lastn) :]
        return MessageListResponse(
            messages=shown,
            row_count=len(shown),
            total_count=len(everything),
            user_id=scope["user_id"],
            user_uuid=scope["user_id"],
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
        everything = yield from _messages((yield from self._owners.scope(thread_uuid)))
        if order == "desc":
            everything.reverse()
        if cursor is not None and not cursor.isdigit():
            raise InvalidArgumentError("cursor is not one that this method gave.")
        start = int(cursor or 0)
        end = len(everything) if page_size is None else start + page_size
        return Page(everything[start:end], str(end) if end < len(everything) else None)

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
        return (yield from _context((yield from self._owners.scope(thread_id))))

    def get_context(
        self, /, thread_uuid: str, *, template_uuid: str | None = None
    ) -> Flow[ThreadContextResponse]:
        """v4's name of `get_user_context`."""
        given = {"template_uuid": template_uuid}
        refuse_given("thread.get_context", {"template_uuid": _NO_TEMPLATE}, given)
        return (yield from _context((yield from self._owners.scope(thread_uuid))))

    def delete(
        self,
        /,
        thread_id: str | None = None,
        *,
        thread_uuid: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SuccessResponse]:
        """Forget a thread: its messages, which are what is remembered of it."""
        thread_id = one_id(thread_id=thread_id, thread_uuid=thread_uuid)
        yield from call("delete_all", **(yield from self._owners.scope(thread_id)))
        self._owners.pop(thread_id)
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
        """v4: all threads of one user, oldest first, in one page."""
        given = {"order_by": order_by, "order": order, "cursor": cursor}
        refuse_given("thread.list", dict.fromkeys(given, "threads come oldest first, all"), given)
        if user_uuid is None:
            refuse("thread.list() without user_uuid", "the sidecar does not list all users")
        return Page((yield from threads_of(self._owners, user_uuid)))

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
        scope = yield from self._owners.scope(thread_id)
        return thread(thread_id, scope["user_id"])


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


def _messages(scope: Mapping[str, str]) -> Flow[list[Message]]:
    records = yield from list_newest(scope)
    return [_shape.message(record) for record in reversed(records)]


def _context(scope: Mapping[str, str]) -> Flow[ThreadContextResponse]:
    last = yield from list_newest(scope, _CONTEXT_MESSAGES)
    query = "\n".join(record.memory for record in reversed(last))[-_MAX_QUERY_CHARS:]
    if not query.strip():
        return ThreadContextResponse(context="")
    handle = yield from call("recall", query, user_id=scope["user_id"], k=_K)
    return ThreadContextResponse(context=handle.text, handle=handle if len(handle) else None)
