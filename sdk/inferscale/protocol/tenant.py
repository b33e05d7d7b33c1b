"""Requests and responses of the key endpoints (`/v1/keys`)."""

from datetime import datetime

from pydantic import BaseModel, Field

from inferscale.protocol.memory import Wire


class KeyRequest(Wire):
    """`POST /v1/keys`. `scopes`: read, write, admin (which covers the others)."""

    name: str = Field(min_length=1, max_length=256)
    scopes: list[str] = Field(default=["read", "write"], min_length=1, max_length=3)


class Key(BaseModel):
    """An API key as it is listed: without its secret."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    created_at: datetime
    revoked_at: datetime | None = None


class CreatedKey(Key):
    """The one answer that holds the secret."""

    secret: str


class KeyList(BaseModel):
    results: list[Key]
