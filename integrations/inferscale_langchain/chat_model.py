"""`ChatInferScale`: LangChain's OpenAI chat model, pointed at the sidecar, with memory attached.

Owns the defaults, and where the `memory` field and its report go. Invariants: memory is part of the
model's identity (a cached answer never reaches another user); the key of another service is never
sent.
"""

from collections.abc import Mapping
from typing import Any, Self

from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field, SecretStr, model_validator

from inferscale import AsyncOpenAI, InvalidArgumentError, MemoryLike, OpenAI, merge_extra_body


class ChatInferScale(ChatOpenAI):
    """`ChatOpenAI` for a sidecar: all its arguments, with other defaults, and `memory`.

    Args:
        memory: a MemoryHandle, its id, or a dict such as `{"user_id": "alice", "k": 20}`, from
            which the sidecar recalls with the last user message.
        model: default "", which is the model that the sidecar serves, whatever its name.
        base_url: the sidecar's, with or without `/v1`; default INFERSCALE_BASE_URL.
        api_key: the sidecar's; default INFERSCALE_API_KEY. OPENAI_API_KEY is not read.

    What happened to the memory is in `response_metadata["memory"]` of an answer that is not
    streamed. An `extra_body` of one call is merged with the model's instead of replacing it.
    """

    model_name: str = Field(default="", alias="model")
    memory: Any = Field(default=None, exclude=True, repr=False)
    stream_usage: bool | None = True
    use_responses_api: bool | None = False

    @model_validator(mode="before")
    @classmethod
    def _use_the_sidecar(cls, values: Any) -> Any:
        """Our clients instead of OpenAI's, and memory as a part of `extra_body`."""
        values = dict(values)
        if values.get("memory") is not None:
            values["extra_body"] = merge_extra_body(values.get("extra_body"), values["memory"])
        if values.get("openai_proxy"):
            raise InvalidArgumentError(
                "openai_proxy is not used; pass http_client and http_async_client with a proxy."
            )
        options = _client_options(values)
        clients = {
            "root_client": OpenAI(**options, http_client=values.get("http_client")),
            "root_async_client": AsyncOpenAI(
                **options, http_client=values.get("http_async_client")
            ),
        }
        values = {**clients, **values}
        sync, awaiting = values["root_client"], values["root_async_client"]
        values |= {"client": sync.chat.completions, "async_client": awaiting.chat.completions}
        return {**values, "base_url": str(sync.base_url), "api_key": sync.api_key}

    @property
    def _llm_type(self) -> str:
        return "inferscale-chat"

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """False: LangChain loads only classes of its own list."""
        return False

    def with_memory(self, memory: MemoryLike | None) -> Self:
        """A copy with other memory (None: without), sharing this one's connections.

        Raises:
            InvalidArgumentError: `memory` is neither a handle nor a scope.
        """
        rest = {name: value for name, value in (self.extra_body or {}).items() if name != "memory"}
        body = merge_extra_body(rest, memory)
        copied: Self = self.model_copy(update={"memory": memory, "extra_body": body})
        return copied

    def _get_request_payload(
        self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        if kwargs.get("extra_body") and self.extra_body:
            kwargs["extra_body"] = {**self.extra_body, **kwargs["extra_body"]}
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        return payload

    def _create_chat_result(
        self, response: Any, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        report = _report_in(response)
        if report is not None:
            generation_info = {**(generation_info or {}), "memory": report}
        return super()._create_chat_result(response, generation_info)


def _client_options(values: dict[str, Any]) -> dict[str, Any]:
    """Takes the address and the key out of the model's arguments; adds what else a client needs."""
    options: dict[str, Any] = {
        "base_url": _take(values, "base_url", "openai_api_base"),
        "api_key": _take(values, "api_key", "openai_api_key"),
    }
    if isinstance(options["api_key"], SecretStr):
        options["api_key"] = options["api_key"].get_secret_value()
    if not isinstance(options["api_key"], str | None):
        raise InvalidArgumentError("api_key is a function; the sidecar's key is a string.")
    for name, ours in (("timeout", "request_timeout"), ("max_retries", "max_retries")):
        value = values.get(name, values.get(ours))
        if value is not None:
            options[name] = value
    for name in ("default_headers", "default_query"):
        options[name] = values.get(name)
    return options


def _take(values: dict[str, Any], *names: str) -> Any:
    """The argument under any of its names, removed."""
    found = [values.pop(name, None) for name in names]
    return next((value for value in found if value is not None), None)


def _report_in(response: Any) -> Any:
    """The `memory` of an answer, which OpenAI's models keep among their unknown fields."""
    if isinstance(response, Mapping):
        return response.get("memory")
    return (getattr(response, "model_extra", None) or {}).get("memory")
