"""`MemoryClient` and `AsyncMemoryClient` with the signatures of Mem0's hosted clients."""

from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import AsyncMemory as AsyncClient
from inferscale import Memory as Client
from inferscale.compat._flow import awaiting, blocking
from inferscale.compat._refuse import foreign, refuse_given, refusing
from inferscale.compat.mem0._memory import close_soon
from inferscale.compat.mem0._platform_calls import PlatformCalls

_ONE_TENANT = "it would reach the memories of every user of this API key; name one user"
_PLATFORM = "this belongs to Mem0's platform"
_ABSENT: Mapping[str, str] = {
    "reset": _ONE_TENANT + " with delete_all(user_id=…)",
    "chat": "use client.inferscale.chat(messages, user_id=…)",
    "get_summary": "there are no summaries; use search",
    "feedback": "feedback is not kept; put it into metadata with update",
    "create_memory_export": "use get_all(user_id=…)",
    "get_memory_export": "use get_all(user_id=…)",
    **dict.fromkeys(
        ("get_profile", "generate_profile", "get_profile_settings", "update_profile_settings"),
        "there are no profiles; use search",
    ),
    **dict.fromkeys(("sample_profiles", "get_profile_job"), "there are no profiles; use search"),
    **dict.fromkeys(("get_project", "update_project"), _PLATFORM),
    **dict.fromkeys(
        ("get_webhooks", "create_webhook", "update_webhook", "delete_webhook"), _PLATFORM
    ),
}


class _Shell:
    """Methods that are not offered: they exist, and raise DialectError with the reason."""

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT:
            return refusing(f"{type(self).__name__}.{name}", _ABSENT[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _settings(
    api_key: str | None, host: str | None, org_id: str | None, project_id: str | None
) -> dict[str, Any]:
    reasons = {
        "host": "that is Mem0's own service; pass the sidecar's address, or leave it out",
        "org_id": "the API key alone says whose memories these are",
        "project_id": "the API key alone says whose memories these are",
    }
    given = {"host": foreign(host, "mem0.ai"), "org_id": org_id, "project_id": project_id}
    refuse_given("MemoryClient", reasons, given)
    return {"base_url": host, "api_key": api_key}


class MemoryClient(_Shell):
    """Mem0's `MemoryClient`, over an InferScale sidecar.

    Args:
        api_key: of the sidecar; default INFERSCALE_API_KEY. MEM0_API_KEY is never sent.
        host: the sidecar; default INFERSCALE_BASE_URL, then http://127.0.0.1:8420.
        client: your own `httpx.Client`.
        org_id, project_id: refused.

    Nothing is sent before the first call.
    """

    def __init__(
        self,
        api_key: str | None = None,
        host: str | None = None,
        org_id: str | None = None,
        project_id: str | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        self._client = Client(**_settings(api_key, host, org_id, project_id), http_client=client)

    add = blocking(PlatformCalls.add)
    get = blocking(PlatformCalls.get)
    get_all = blocking(PlatformCalls.get_all)
    search = blocking(PlatformCalls.search)
    update = blocking(PlatformCalls.update)
    delete = blocking(PlatformCalls.delete)
    delete_all = blocking(PlatformCalls.delete_all)
    history = blocking(PlatformCalls.history)
    users = blocking(PlatformCalls.users)
    delete_users = blocking(PlatformCalls.delete_users)
    batch_update = blocking(PlatformCalls.batch_update)
    batch_delete = blocking(PlatformCalls.batch_delete)

    @property
    def inferscale(self) -> Client:
        """The SDK's client, for what Mem0 has not."""
        return self._client

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AsyncMemoryClient(_Shell):
    """`MemoryClient` for asyncio: every method but the constructor is awaited."""

    def __init__(
        self,
        api_key: str | None = None,
        host: str | None = None,
        org_id: str | None = None,
        project_id: str | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        settings = _settings(api_key, host, org_id, project_id)
        self._client = AsyncClient(**settings, http_client=client)

    add = awaiting(PlatformCalls.add)
    get = awaiting(PlatformCalls.get)
    get_all = awaiting(PlatformCalls.get_all)
    search = awaiting(PlatformCalls.search)
    update = awaiting(PlatformCalls.update)
    delete = awaiting(PlatformCalls.delete)
    delete_all = awaiting(PlatformCalls.delete_all)
    history = awaiting(PlatformCalls.history)
    users = awaiting(PlatformCalls.users)
    delete_users = awaiting(PlatformCalls.delete_users)
    batch_update = awaiting(PlatformCalls.batch_update)
    batch_delete = awaiting(PlatformCalls.batch_delete)

    @property
    def inferscale(self) -> AsyncClient:
        """The SDK's client."""
        return self._client

    def close(self) -> Awaitable[None]:
        """Close the connections; may be awaited."""
        return close_soon(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()
