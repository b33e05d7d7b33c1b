"""`InferScaleChatClient`: the sidecar's model in Agent Framework, saying what became of the memory.

Owns the address and the report of an answer. Memory itself is `InferScaleProvider`'s.
"""

from typing import Any

from agent_framework.openai import OpenAIChatCompletionClient

from inferscale import AsyncOpenAI

_SERVED = "inferscale"
"""Stands for the model that is served: the framework wants a name, and shows it in telemetry."""


class InferScaleChatClient(OpenAIChatCompletionClient):
    """The model that the sidecar serves.

    An answer that is not streamed has the report of its memory in
    `response.additional_properties["memory"]`; there is no memory text in it.

    Args:
        model: default: the model that the sidecar serves, whatever its name.
        async_client: default: one from the environment. Lives on one event loop.
        options: everything else goes to `OpenAIChatCompletionClient`.
    """

    def __init__(
        self, model: str | None = None, *, async_client: AsyncOpenAI | None = None, **options: Any
    ) -> None:
        client = async_client or AsyncOpenAI()
        super().__init__(model or _SERVED, async_client=client, **options)

    def _prepare_options(self, messages: Any, options: Any) -> dict[str, Any]:
        prepared: dict[str, Any] = super()._prepare_options(messages, options)
        return prepared | ({"model": ""} if prepared["model"] == _SERVED else {})

    def _get_metadata_from_chat_response(self, response: Any) -> dict[str, Any]:
        found: dict[str, Any] = super()._get_metadata_from_chat_response(response)
        report = (response.model_extra or {}).get("memory")
        return found | ({"memory": report} if report else {})
