"""The `memory` field of `/v1/chat/completions` and `/v1/completions`, and the report on it."""

from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from inferscale.protocol.memory import (
    MAX_RECALL_ITEMS,
    SCOPE_IDS,
    MaxTokens,
    Scope,
    Text,
    Wire,
)

REPORT_HEADER = "x-inferscale-request-id"
"""Response header that names the report of a request, for clients that stream."""

Fidelity = Literal["fast", "balanced", "exact"]
"""How much of the memory is left to exact prefill. fast: nothing; balanced: the few items that
matter most; exact: everything, which is plain text that vLLM's own prefix cache may hold."""

Position = Literal["auto", "system", "last"]
"""Where the memory stands. system: at the end of the system message; last: before the text of the
last user message, behind the history, which stays a prefix that vLLM's own cache holds; auto: last
in a conversation, or if the chat template prints the request's tools behind the system message."""


class MemoryField(Scope):
    """Which memory goes into a request: a handle, or a scope to recall from.

    Without `query`, the last user message is the query.
    """

    handle: str | None = None
    query: Text | None = None
    k: int = Field(default=20, ge=0, le=MAX_RECALL_ITEMS)
    threshold: float | None = Field(default=None, ge=-1, le=1)
    filters: dict[str, Any] | None = None
    max_tokens: MaxTokens | None = None
    inject: bool = True
    """False: put the same text into the prompt, but let vLLM prefill it (the comparison arm)."""
    fidelity: Fidelity = "balanced"
    position: Position | None = None
    """None: as the server is set (`chat.position`)."""
    prepare: bool | None = None
    """Whether to prefill the conversation for its next turn once this one is answered, if memory
    stands behind the history. None: as the server is set (`chat.prepare_turns`)."""

    @model_validator(mode="after")
    def _one_source(self) -> "MemoryField":
        scoped = any(getattr(self, name) for name in SCOPE_IDS)
        if bool(self.handle) == bool(scoped):
            raise ValueError(
                f"memory needs either a handle or at least one of {', '.join(SCOPE_IDS)}; "
                f"got {'both' if scoped else 'neither'}"
            )
        return self


class TokenCounts(BaseModel):
    """Where the prompt's tokens came from. They add up to the prompt's length."""

    injected: int
    native: int
    prefilled: int


class MemoryReport(Wire):
    """What happened to the memory of one request."""

    request_id: str
    handle: str | None = None
    items: int = 0
    blocks: int = 0
    """Pinned blocks before the items; they are never injected, but prefilled exactly."""
    mode: Literal["injected", "partial", "text", "none"]
    """injected: all items that may be were; partial: some; text: prefilled; none: nothing found."""
    reason: str | None = None
    """Why not everything was injected (see the docs page on fallback reasons); None if it was."""
    tokens: TokenCounts | None = None
    position: Literal["system", "last"] | None = None
    """Where the memory stood; None if there was none."""
