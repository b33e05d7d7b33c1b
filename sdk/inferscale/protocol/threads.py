"""Requests and responses of conversation threads (`/v1/threads`).

A thread is a run of its user: its id is the `run_id` of what is remembered from it.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from inferscale.protocol.memory import (
    MAX_RECALL_ITEMS,
    AddedMemory,
    Extraction,
    HandleResponse,
    MaxTokens,
    Message,
    Wire,
)
from inferscale.protocol.values import Id

MAX_CONTEXT_MESSAGES = 1_000
QUERY_MESSAGES = 4


def _check_thread_id(value: str) -> str:
    if "/" in value or value in (".", ".."):
        raise ValueError(f"thread id {value!r} must not contain '/', nor be '.' or '..'")
    return value


ThreadId = Annotated[Id, AfterValidator(_check_thread_id)]


class CreateThreadRequest(Wire):
    """`POST /v1/threads`. May be repeated; the thread that is there is answered then."""

    id: ThreadId | None = None
    """None: one is made up."""
    user_id: Id
    agent_id: Id | None = None
    app_id: Id | None = None
    metadata: dict[str, Any] | None = None


class Thread(BaseModel):
    """One thread. `updated_at` is when its last message was added."""

    id: str
    user_id: str
    agent_id: str | None = None
    app_id: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime
    updated_at: datetime


class ThreadListResponse(BaseModel):
    """A page in creation order, oldest first. `next_cursor` is None on the last page."""

    results: list[Thread]
    total: int
    next_cursor: str | None = None


class AddMessagesRequest(Wire):
    """`POST /v1/threads/{id}/messages`."""

    messages: str | Message | list[Message]
    metadata: dict[str, Any] | None = None
    """Kept with each of the messages, and with what is remembered from them."""
    infer: bool | None = None
    """None: keep the messages only. False: remember each as it is, too. True: remember the facts in
    them, too, extracted by an LLM."""
    async_mode: bool = False
    """True: answer once the messages are stored; their facts are extracted in the background."""


class ThreadMessage(BaseModel):
    """One message of a thread, word for word."""

    id: str
    role: str
    content: str
    name: str | None = None
    timestamp: datetime | None = None
    """When it was said, if the client told."""
    metadata: dict[str, Any] | None = None
    created_at: datetime


class AddMessagesResponse(BaseModel):
    """The messages; and with `infer`, what was remembered from them, as `POST /v1/memories`."""

    messages: list[ThreadMessage]
    results: list[AddedMemory] = []
    extraction: Extraction | None = None


class MessageListResponse(BaseModel):
    """A page of messages. `next_cursor` is None on the last page."""

    results: list[ThreadMessage]
    total: int
    next_cursor: str | None = None


class ContextRequest(Wire):
    """`POST /v1/threads/{id}/context`: what bears on the thread's last messages."""

    k: int = Field(default=20, ge=0, le=MAX_RECALL_ITEMS)
    last: int = Field(default=QUERY_MESSAGES, ge=1, le=MAX_CONTEXT_MESSAGES)
    """How many of the last messages are the query."""
    messages: int = Field(default=0, ge=0, le=MAX_CONTEXT_MESSAGES)
    """How many of the last messages are given back beside the handle."""
    threshold: float | None = Field(default=None, ge=-1, le=1)
    filters: dict[str, Any] | None = None
    max_tokens: MaxTokens | None = None
    ttl_s: int = Field(default=86_400, ge=1, le=30 * 86_400)


class ThreadSummary(BaseModel):
    """What the first `messages` of a thread say, written by the model in the background.

    `pending`: more is being summarized. `failed`: `error` says why; the next message tries again.
    In both states `text` is the summary before, if there is one.
    """

    state: Literal["pending", "done", "failed"]
    text: str | None = None
    messages: int = 0
    error: str | None = None
    updated_at: datetime


class ContextResponse(HandleResponse):
    """A handle for the thread's user, its text, and the last messages if asked for."""

    thread_id: str
    messages: list[ThreadMessage] = Field(default_factory=list)
    summary: ThreadSummary | None = None
    """Of older messages; None if the sidecar makes none, or the thread is not long enough."""
