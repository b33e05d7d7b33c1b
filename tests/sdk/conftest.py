"""A scripted sidecar behind a mock transport, and both clients on it."""

import inspect
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from inferscale import AsyncMemory, Memory

BASE_URL = "http://sidecar.test"
NOW = "2026-11-30T12:00:00+00:00"
Reply = httpx.Response | Exception


class Sidecar:
    """Answers with its replies in turn, the last one for ever; remembers what it was sent."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.replies: list[Reply] = []

    def reply(self, body: Any = None, *, status: int = 200, **headers: str) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.replies.append(httpx.Response(status, json=body, headers=names))

    def fail(self, error: Exception) -> None:
        self.replies.append(error)

    def refuse(
        self, status: int, message: str = "no", code: str = "some_code", **more: str
    ) -> None:
        problem = {"message": message, "type": "t", "param": None, "code": code}
        self.reply({"error": problem}, status=status, **more)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def last(self) -> httpx.Request:
        return self.requests[-1]

    @property
    def body(self) -> Any:
        return json.loads(self.last.content)


class Awaited:
    """Makes every method of either client awaitable, so that one test serves both."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self.target, name)(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return call


@pytest.fixture
def sidecar() -> Sidecar:
    return Sidecar()


@pytest.fixture(params=["sync", "async"])
async def connect(
    request: pytest.FixtureRequest, sidecar: Sidecar
) -> AsyncIterator[Callable[..., Awaited]]:
    """`connect(**options)` makes a client of either kind, talking to `sidecar`."""
    opened: list[Awaited] = []

    def create(handler: Callable[..., Any] = sidecar, **options: Any) -> Awaited:
        transport = httpx.MockTransport(handler)
        settings = {"base_url": BASE_URL, **options}
        if request.param == "sync":
            client: Any = Memory(http_client=httpx.Client(transport=transport), **settings)
        else:
            client = AsyncMemory(http_client=httpx.AsyncClient(transport=transport), **settings)
        opened.append(Awaited(client))
        return opened[-1]

    yield create
    for client in opened:
        await client.close()


@pytest.fixture
def memory(connect: Callable[..., Awaited]) -> Awaited:
    return connect(api_key="key-1")


@pytest.fixture
def record() -> dict[str, Any]:
    """A memory as the sidecar sends it."""
    return {
        "id": "m1",
        "memory": "Alice lives in Oslo",
        "hash": "abc",
        "user_id": "alice",
        "metadata": {"topic": "home"},
        "kv_state": "ready",
        "created_at": NOW,
        "updated_at": NOW,
    }


@pytest.fixture
def handle_body() -> dict[str, Any]:
    """A handle as the sidecar sends it."""
    item = {"id": "m1", "memory": "Alice lives in Oslo", "score": 0.5, "kv_state": "ready"}
    return {
        "handle": "mh_0123456789abcdef0123456789abcdef",
        "user_id": "alice",
        "items": [item],
        "text": "Memory:\n- Alice lives in Oslo\n",
        "created_at": NOW,
        "expires_at": "2026-12-01T12:00:00+00:00",
    }


@pytest.fixture
def completion() -> dict[str, Any]:
    """A chat answer as the sidecar sends it."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "demo",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "In Oslo.", "reasoning": "hm"},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        "memory": {
            "request_id": "r1",
            "mode": "injected",
            "items": 1,
            "tokens": {"injected": 5, "native": 1, "prefilled": 3},
            "field_of_a_newer_sidecar": 1,
        },
    }
