"""Lines of an export (`GET /v1/export`, `POST /v1/import`): JSON, one object a line.

First a header, then memories in the order in which they were made, then links between them, pinned
blocks, threads with their messages, documents, and the end, without which a file is known to be cut
off. Everything that can be made again is left out: keys, handles, KV, and embeddings unless they
are asked for.
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, field_serializer

from inferscale.protocol.blocks import (
    DEFAULT_BLOCK_LIMIT,
    BlockLimit,
    BlockValue,
    Description,
    Label,
)
from inferscale.protocol.document import MAX_PATHS, MAX_TTL_S, Key, Namespace
from inferscale.protocol.memory import Scope, Wire
from inferscale.protocol.threads import ThreadId
from inferscale.protocol.values import MAX_ID_CHARS, Id, MemoryKind, Text

FORMAT: Literal["inferscale-memories"] = "inferscale-memories"
VERSION = 1
MEDIA_TYPE = "application/x-ndjson"

MemoryId = Annotated[str, Field(pattern=r"^[0-9A-Za-z._:-]{1,64}$")]


class Header(Wire):
    """The first line. `embedder` names what the vectors come from, if there are any."""

    type: Literal["header"] = "header"
    format: Literal["inferscale-memories"] = FORMAT
    version: int = VERSION
    tenant: str = Field(max_length=MAX_ID_CHARS)
    """Id of the tenant: ids are kept when its own memories come back to it."""
    embedder: str | None = None


class VersionLine(Wire):
    """One thing that happened to a memory. `memory` is the text that it had from then on."""

    version: int = Field(ge=1, le=2**31 - 1)
    event: Literal["ADD", "UPDATE", "REPLACE", "EXTRACT"]
    memory: Text | None = None
    created_at: AwareDatetime


class MemoryLine(Scope):
    """A memory with its history. A message whose facts are still being extracted is `live`."""

    type: Literal["memory"] = "memory"
    id: MemoryId
    memory: Text
    version: int = Field(default=1, ge=1, le=2**31 - 1)
    kind: MemoryKind = "memory"
    status: Literal["live", "source", "superseded"] = "live"
    role: str | None = Field(default=None, max_length=64)
    actor_id: str | None = Field(default=None, max_length=MAX_ID_CHARS)
    metadata: dict[str, Any] | None = None
    said_at: AwareDatetime | None = None
    expires_at: AwareDatetime | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    versions: list[VersionLine] = Field(min_length=1)
    vector: str | None = None
    """Base64 of the embedding: float32, little endian."""


class LinkLine(Wire):
    """`source`: the memory comes from that message. `superseded_by`: that one made it untrue."""

    type: Literal["link"] = "link"
    kind: Literal["source", "superseded_by"]
    memory_id: MemoryId
    target_id: MemoryId


class BlockVersionLine(Wire):
    """One thing that happened to a block, and what it was from then on."""

    version: int = Field(ge=1, le=2**31 - 1)
    event: Literal["ADD", "UPDATE"]
    label: Label
    value: BlockValue
    description: Description | None = None
    created_at: AwareDatetime


class BlockLine(Wire):
    """A pinned block with its history, and the scopes that it is attached to."""

    type: Literal["block"] = "block"
    id: MemoryId
    label: Label
    value: BlockValue
    version: int = Field(default=1, ge=1, le=2**31 - 1)
    limit: BlockLimit = DEFAULT_BLOCK_LIMIT
    description: Description | None = None
    read_only: bool = False
    metadata: dict[str, Any] | None = None
    scopes: list[Scope] = Field(default=[])
    created_at: AwareDatetime
    updated_at: AwareDatetime
    versions: list[BlockVersionLine] = Field(min_length=1)

    @field_serializer("scopes")
    def _only_given_ids(self, scopes: list[Scope]) -> list[dict[str, str]]:
        """As in other lines: a release that does not know an id reads what is not of it."""
        return [scope.model_dump(exclude_none=True) for scope in scopes]


class ThreadLine(Wire):
    """A thread, without its messages. Its id is the `run_id` of what is remembered from it."""

    type: Literal["thread"] = "thread"
    id: ThreadId
    user_id: Id
    agent_id: Id | None = None
    app_id: Id | None = None
    metadata: dict[str, Any] | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime


class MessageLine(Wire):
    """A message of a thread, word for word; whose thread it is stands in each."""

    type: Literal["message"] = "message"
    id: MemoryId
    thread_id: ThreadId
    user_id: Id
    agent_id: Id | None = None
    app_id: Id | None = None
    role: str = Field(max_length=64)
    content: Text
    name: str | None = Field(default=None, max_length=MAX_ID_CHARS)
    metadata: dict[str, Any] | None = None
    said_at: AwareDatetime | None = None
    created_at: AwareDatetime


class DocumentLine(Wire):
    """A document of a user, or (without `user_id`) one that all users share."""

    type: Literal["document"] = "document"
    user_id: Id | None = None
    namespace: Namespace
    key: Key
    value: dict[str, Any]
    index: list[str] | None = Field(default=None, max_length=MAX_PATHS)
    """Paths of what is embedded."""
    ttl_s: float | None = Field(default=None, gt=0, le=MAX_TTL_S)
    expires_at: AwareDatetime | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    vectors: list[str] | None = None
    """Of each text at these paths, like `vector` of a memory."""


class End(Wire):
    """The last line, with how many of each there were."""

    type: Literal["end"] = "end"
    memories: int
    links: int
    blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0


Content = MemoryLine | LinkLine | BlockLine | ThreadLine | MessageLine | DocumentLine
Line = Header | Content | End
LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])
"""Reads one line."""


class ImportResponse(BaseModel):
    """What an import did; after a dry run, what it would do.

    `memories`, `blocks`, `threads`, their `messages` and `documents` are new here. Of all of them:
    `unchanged` were here already; `differing` are here with other contents and stay as they are;
    `duplicates` have a text that their scope holds under another id, or a label; `deleted` were
    deleted here and stay so unless `restore` was asked for, or have expired; `invalid` could not be
    stored and were left out, which must be asked for with `skip_invalid`. `links` are new ones
    between memories.
    """

    memories: int = 0
    unchanged: int = 0
    differing: int = 0
    duplicates: int = 0
    deleted: int = 0
    invalid: int = 0
    links: int = 0
    blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0
    dry_run: bool = False
