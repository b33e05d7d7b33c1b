"""`Zep` and `AsyncZep`: the trees of sub-clients over one client of the SDK."""

from types import TracebackType
from typing import Any, Self

import httpx

from inferscale import AsyncMemory, Memory
from inferscale.compat._refuse import Absent, foreign, refuse_given
from inferscale.compat.zep import _awaiting, _blocking

_REASONS = {
    "environment": "there is one sidecar; pass its address as base_url",
    "base_url": "that is Zep's own service; pass the sidecar's address, or leave it out",
}
_FACTS_ONLY = "InferScale keeps facts; what Zep's cloud has beside them is not offered"


class _Root:
    """What Zep's clients have besides users, threads and graphs raises when it is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Absent(name, _FACTS_ONLY)


def _settings(
    api_key: str | None,
    base_url: str | None,
    timeout: float | None,
    max_retries: int | None,
    environment: Any,
) -> dict[str, Any]:
    theirs = foreign(base_url, "getzep.com")
    refuse_given("Zep", _REASONS, {"environment": environment, "base_url": theirs})
    given = {"timeout_s": timeout, "max_retries": max_retries}
    return {"base_url": base_url, "api_key": api_key} | {
        name: value for name, value in given.items() if value is not None
    }


class Zep(_Root):
    """Zep's client, over an InferScale sidecar.

    Args:
        api_key: of the sidecar; default INFERSCALE_API_KEY. ZEP_API_KEY is never sent.
        base_url: the sidecar; default INFERSCALE_BASE_URL, then http://127.0.0.1:8420.
        timeout: seconds to wait for an answer.
        max_retries: further attempts after a failed connection, 429 or 503.
        httpx_client: your own `httpx.Client`; it stays open.
        environment: refused.

    Nothing is sent before the first call.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        httpx_client: httpx.Client | None = None,
        environment: Any = None,
    ) -> None:
        settings = _settings(api_key, base_url, timeout, max_retries, environment)
        self._client = Memory(**settings, http_client=httpx_client)
        self.user = _blocking.User(self._client)
        self.thread = _blocking.Thread(self._client)
        self.graph = _blocking.Graph(self._client)

    @property
    def inferscale(self) -> Memory:
        """The SDK's client, for what Zep has not: `recall`, `chat`, filters."""
        return self._client

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncZep(_Root):
    """`Zep` for asyncio: every method is awaited. `httpx_client` is an `httpx.AsyncClient`."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        httpx_client: httpx.AsyncClient | None = None,
        environment: Any = None,
    ) -> None:
        settings = _settings(api_key, base_url, timeout, max_retries, environment)
        self._client = AsyncMemory(**settings, http_client=httpx_client)
        self.user = _awaiting.AsyncUser(self._client)
        self.thread = _awaiting.AsyncThread(self._client)
        self.graph = _awaiting.AsyncGraph(self._client)

    @property
    def inferscale(self) -> AsyncMemory:
        """The SDK's client."""
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()
