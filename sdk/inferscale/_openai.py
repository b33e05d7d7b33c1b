"""OpenAI's clients with memory attached: drop-in subclasses that point at the sidecar.

Owns where the `memory` field goes into OpenAI's requests. They hook into `_prepare_options`, which
runs once per attempt for blocking, awaiting and streaming calls alike, in openai 2.x and 3.x.
Invariant: attaching is idempotent, and everything else in the request stays as it was.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Self

import openai
from openai._models import FinalRequestOptions

from inferscale._attach import MemoryLike, memory_field, merge_extra_body
from inferscale._config import resolve_api_key, resolve_base_url

_WITH_MEMORY = ("/chat/completions", "/completions", "/responses")
# OpenAI's clients refuse to start without a key, and the sidecar refuses a key that it does not
# know: this one is taken out before sending. OPENAI_API_KEY belongs to another service.
_NO_KEY = "no-key"


def attach(options: FinalRequestOptions, memory: MemoryLike | None) -> FinalRequestOptions:
    """`options` with `memory` in its body, if it is a request that takes memory.

    `extra_body={"memory": …}` of the call wins over `memory`; `{"memory": None}` switches it off.

    Raises:
        InvalidArgumentError: malformed memory.
    """
    extra = options.extra_json if isinstance(options.extra_json, dict) else {}
    named = extra.get("memory", memory)
    if options.method.lower() != "post" or (named is None and "memory" not in extra):
        return options
    if options.url in _WITH_MEMORY:
        rest = {name: value for name, value in extra.items() if name != "memory"}
        options.extra_json = merge_extra_body(rest, named)
    return options


def _settings(
    memory: MemoryLike | None, api_key: Any, base_url: Any
) -> tuple[MemoryLike | None, Any, str]:
    """Checked (memory, api_key, base_url) of a client."""
    if memory is not None:
        memory_field(memory)
    root = resolve_base_url(None if base_url is None else str(base_url))
    return (
        memory,
        (api_key if callable(api_key) else resolve_api_key(api_key) or _NO_KEY),
        f"{root}/v1",
    )


def _drop_no_key(request: Any) -> None:
    if request.headers.get("authorization") == f"Bearer {_NO_KEY}":
        del request.headers["authorization"]


class OpenAI(openai.OpenAI):
    """`openai.OpenAI`, pointed at the sidecar, with memory attached to chats,
    responses and text completions.

    Args:
        memory: a MemoryHandle, its id, or a dict such as `{"user_id": "alice", "k": 20}`.
        api_key: the sidecar's; default INFERSCALE_API_KEY. OPENAI_API_KEY is not read.
        base_url: the sidecar's, with or without `/v1`; default INFERSCALE_BASE_URL.
        options: everything else goes to `openai.OpenAI`.

    Raises:
        InvalidArgumentError: `memory` is neither a handle nor a scope.
    """

    def __init__(
        self,
        *,
        memory: MemoryLike | None = None,
        api_key: str | Callable[[], str] | None = None,
        base_url: Any = None,
        **options: Any,
    ) -> None:
        self.memory, key, url = _settings(memory, api_key, base_url)
        super().__init__(api_key=key, base_url=url, **options)

    def with_memory(self, memory: MemoryLike | None) -> Self:
        """A copy with other memory (None: without), sharing this one's connections."""
        return self.copy(_extra_kwargs={"memory": memory})

    def copy(self, **options: Any) -> Self:
        """As `openai.OpenAI.copy`; keeps the memory."""
        extra = {"memory": self.memory, **options.pop("_extra_kwargs", {})}
        return super().copy(_extra_kwargs=extra, **options)

    with_options = copy

    def _prepare_options(self, options: FinalRequestOptions) -> FinalRequestOptions:
        return attach(super()._prepare_options(options), self.memory)

    def _prepare_request(self, request: Any) -> None:
        super()._prepare_request(request)
        _drop_no_key(request)


class AsyncOpenAI(openai.AsyncOpenAI):
    """`openai.AsyncOpenAI` in the same way; see `OpenAI`."""

    def __init__(
        self,
        *,
        memory: MemoryLike | None = None,
        api_key: str | Callable[[], Awaitable[str]] | None = None,
        base_url: Any = None,
        **options: Any,
    ) -> None:
        self.memory, key, url = _settings(memory, api_key, base_url)
        super().__init__(api_key=key, base_url=url, **options)

    def with_memory(self, memory: MemoryLike | None) -> Self:
        """As `OpenAI.with_memory`."""
        return self.copy(_extra_kwargs={"memory": memory})

    def copy(self, **options: Any) -> Self:
        """As `openai.AsyncOpenAI.copy`; keeps the memory."""
        extra = {"memory": self.memory, **options.pop("_extra_kwargs", {})}
        return super().copy(_extra_kwargs=extra, **options)

    with_options = copy

    async def _prepare_options(self, options: FinalRequestOptions) -> FinalRequestOptions:
        return attach(await super()._prepare_options(options), self.memory)

    async def _prepare_request(self, request: Any) -> None:
        await super()._prepare_request(request)
        _drop_no_key(request)


for _client in (OpenAI, AsyncOpenAI):
    _client.__module__ = "inferscale"
