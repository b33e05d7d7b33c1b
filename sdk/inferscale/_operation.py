"""`Operation`: one request and how to read its answer. No I/O, no retries, no clock."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import httpx
from pydantic import BaseModel

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Operation(Generic[T]):
    """One request and how to read its answer.

    Attributes:
        read: answer → result. May raise ValueError (pydantic's included) if it has another shape.
        repeatable: receiving it twice does no harm, so it may be sent again if a connection breaks.
        if_missing: gives the result for a 404 of the sidecar; None: that is an error.
        pieces: instead of `content`: gives the body piece by piece, anew for each attempt.
        stream: `read` gets a response whose body is still to come.
        timeout_s: overrides the client's.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    pieces: Callable[[], Iterator[bytes]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    if_missing: Callable[[], T] | None = None
    stream: bool = False
    timeout_s: float | None = None


def reads(model: type[M]) -> Callable[[httpx.Response], M]:
    """Reads the JSON body of an answer as `model`."""
    return lambda response: model.model_validate(response.json())
