"""Requests and responses of `/v1/recall` and `/v1/handles`: a search, frozen into a handle."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from inferscale.protocol.moments import AsOf
from inferscale.protocol.scope import Scope
from inferscale.protocol.values import (
    MAX_RECALL_ITEMS,
    HandleBlock,
    KvState,
    MaxTokens,
    SearchMode,
    Text,
)


class RecallRequest(Scope, AsOf):
    """`POST /v1/recall`: search, order and freeze a composition."""

    query: Text
    k: int = Field(default=20, ge=0, le=MAX_RECALL_ITEMS)
    threshold: float | None = Field(default=None, ge=-1, le=1)
    filters: dict[str, Any] | None = None
    mode: SearchMode = "hybrid"
    diversity: float = Field(default=0, ge=0, le=1)
    """How much a hit loses for being like a better one: 0 not at all, 1 nothing else counts."""
    recency_days: float | None = Field(default=None, gt=0, le=36_500)
    """Prefer what is new: after so many days the bonus is half. None: age does not count."""
    rerank: bool = False
    """True: have the server's reranker order the best; goes with neither of the two above."""
    max_tokens: MaxTokens | None = None
    ttl_s: int = Field(default=86_400, ge=1, le=30 * 86_400)


class HandleItem(BaseModel):
    id: str
    memory: str
    score: float
    kv_state: KvState


class HandleResponse(BaseModel):
    """A handle and what it stands for. `text` is exactly the block that the model will see."""

    handle: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None
    items: list[HandleItem]
    blocks: list[HandleBlock] = []
    """The pinned blocks, in the order in which they are shown before the items."""
    text: str
    created_at: datetime
    expires_at: datetime
    as_of: datetime | None = None
    """The moment whose memories it holds, if that is not the one in which it was made."""
