"""`InferScaleLLM`: LlamaIndex's OpenAI-like model, pointed at the sidecar, with memory attached.

Owns the defaults and where memory goes into a request. Invariants: an LLM has one memory for its
life, so users never mix; nothing of the memory reaches messages or what LlamaIndex stores.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.llms.openai_like import OpenAILike
from pydantic import PrivateAttr

from inferscale import AsyncOpenAI, InvalidArgumentError, MemoryLike, OpenAI, memory_field
from inferscale_shared.attach import attach


class InferScaleLLM(OpenAILike):
    """`OpenAILike` for a sidecar: all its arguments, with other defaults, and `memory`.

    Args:
        memory: a scope such as `{"user_id": "alice", "k": 20}`, to recall from with the user's
            last message, the same in each model call of a turn; a handle, or its id.
        model: default "", which is the model that the sidecar serves, whatever its name.
        api_base: the sidecar's address; default INFERSCALE_BASE_URL.
        api_key: the sidecar's; default INFERSCALE_API_KEY. OPENAI_API_KEY is not read.
        openai_client, async_openai_client: default: made of the above.
        options: everything else goes to `OpenAILike`.

    What happened to the memory is in `response.raw.memory` of an answer that is not streamed.

    Raises:
        InvalidArgumentError: `memory` is neither a scope nor a handle, or `reuse_client` is off.
    """

    _memory: dict[str, Any] | None = PrivateAttr(default=None)
    _extra_body: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(
        self,
        memory: MemoryLike | None = None,
        *,
        model: str = "",
        additional_kwargs: Mapping[str, Any] | None = None,
        openai_client: OpenAI | None = None,
        async_openai_client: AsyncOpenAI | None = None,
        **options: Any,
    ) -> None:
        field = None if memory is None else memory_field(memory)
        # LlamaIndex lets these replace what a call gives: `extra_body` is merged by us.
        more = dict(additional_kwargs or {})
        extra_body = more.pop("extra_body", None) or {}
        clients = _clients(options, openai_client, async_openai_client)
        chats = {"is_chat_model": True, "is_function_calling_model": True}
        super().__init__(model=model, additional_kwargs=more, **{**chats, **options, **clients})
        self._memory, self._extra_body = field, extra_body

    @classmethod
    def class_name(cls) -> str:
        """As LlamaIndex writes it down."""
        return "InferScaleLLM"

    def with_memory(self, memory: MemoryLike | None) -> Self:
        """A copy with other memory (None: without), sharing this one's connections.

        Raises:
            InvalidArgumentError: `memory` is neither a handle nor a scope.
        """
        field = None if memory is None else memory_field(memory)
        copied: Self = self.model_copy()
        copied._memory = field
        return copied

    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> Any:
        """As in `OpenAILike`, with memory; so are the others."""
        return super().chat(messages, **self._with_memory(options, last_said(messages)))

    def stream_chat(self, messages: Sequence[ChatMessage], **options: Any) -> Any:
        """See `chat`."""
        return super().stream_chat(messages, **self._with_memory(options, last_said(messages)))

    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> Any:
        """See `chat`."""
        return await super().achat(messages, **self._with_memory(options, last_said(messages)))

    async def astream_chat(self, messages: Sequence[ChatMessage], **options: Any) -> Any:
        """See `chat`."""
        more = self._with_memory(options, last_said(messages))
        return await super().astream_chat(messages, **more)

    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        """See `chat`."""
        return super().complete(prompt, formatted, **self._with_memory(options, prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        """See `chat`."""
        return super().stream_complete(prompt, formatted, **self._with_memory(options, prompt))

    async def acomplete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        """See `chat`."""
        return await super().acomplete(prompt, formatted, **self._with_memory(options, prompt))

    async def astream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        """See `chat`."""
        more = self._with_memory(options, prompt)
        return await super().astream_complete(prompt, formatted, **more)

    def _with_memory(self, options: dict[str, Any], said: str) -> dict[str, Any]:
        body = {**self._extra_body, **(options.get("extra_body") or {})}
        if self._memory is not None:
            body = attach(body, self._memory, said)
        return {**options, "extra_body": body}


_CLIENT = {
    "api_key": "api_key",
    "base_url": "api_base",
    "max_retries": "max_retries",
    "timeout": "timeout",
    "default_headers": "default_headers",
}
"""Arguments of OpenAI's clients → what LlamaIndex calls them."""


def _clients(
    options: dict[str, Any], sync: OpenAI | None, awaiting: AsyncOpenAI | None
) -> dict[str, Any]:
    """LlamaIndex's arguments for the clients; takes those of HTTP out of the options."""
    if not options.get("reuse_client", True):
        raise InvalidArgumentError(
            "reuse_client is False; LlamaIndex would make clients that do not know the sidecar."
        )
    http, async_http = options.pop("http_client", None), options.pop("async_http_client", None)
    given = {name: options[theirs] for name, theirs in _CLIENT.items() if theirs in options}
    sync = sync or OpenAI(**given, http_client=http)
    awaiting = awaiting or AsyncOpenAI(**given, http_client=async_http)
    # Else LlamaIndex would look for them in variables that belong to another service.
    found = {"api_base": str(sync.base_url), "api_key": sync.api_key}
    return {**found, "openai_client": sync, "async_openai_client": awaiting}


def last_said(messages: Iterable[ChatMessage]) -> str:
    """The text of the user's last message; "" if there is none.

    A ReAct agent puts what tools answered into the user's mouth; that is not the user's.
    """
    texts = [message.content or "" for message in messages if message.role == MessageRole.USER]
    return next((text for text in reversed(texts) if not text.startswith("Observation: ")), "")
