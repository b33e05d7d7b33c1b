"""`InferScaleModel`: the sidecar's model in Pydantic AI, which says what became of the memory.

Owns the address and the report of an answer. Memory itself is `InferScaleMemory`'s.
"""

from typing import Any

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.vllm import VLLMProvider

from inferscale import AsyncOpenAI


class InferScaleModel(OpenAIChatModel):
    """The model that the sidecar serves.

    An answer that is not streamed has the report of its memory in
    `response.provider_details["memory"]`; there is no memory text in it.

    Args:
        model_name: default "", which is the model that the sidecar serves, whatever its name.
        openai_client: default: one from the environment. Lives on one event loop.
        options: everything else goes to `OpenAIChatModel`.
    """

    def __init__(
        self, model_name: str = "", *, openai_client: AsyncOpenAI | None = None, **options: Any
    ) -> None:
        provider = VLLMProvider(openai_client=openai_client or AsyncOpenAI())
        super().__init__(model_name, provider=provider, **options)

    def _process_provider_details(self, response: Any) -> dict[str, Any] | None:
        details: dict[str, Any] = super()._process_provider_details(response) or {}
        report = (response.model_extra or {}).get("memory")
        return details | ({"memory": report} if report else {})
