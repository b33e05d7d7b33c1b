"""`InferScaleLlm`: ADK's `LiteLlm`, pointed at the sidecar.

Owns address and key, and that fields of the model and of a request come together: `LiteLlm` lets
those of the request replace those of the model.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from google.adk.models.lite_llm import LiteLlm
from google.genai import types
from pydantic import PrivateAttr

from inferscale import OpenAI
from inferscale_adk._content import extra_body_of, with_extra_body


class InferScaleLlm(LiteLlm):
    """The model that the sidecar serves.

    Args:
        model: default "", which is the model that the sidecar serves, whatever its name.
        base_url, api_key: default INFERSCALE_BASE_URL, INFERSCALE_API_KEY.
        extra_body: fields of vLLM's, such as `{"top_k": 20}`.
        options: whatever else `LiteLlm` takes.
    """

    _extra_body: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __init__(
        self,
        model: str = "",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        with OpenAI(base_url=base_url, api_key=api_key) as client:
            address = {"api_base": str(client.base_url), "api_key": client.api_key}
        super().__init__(f"hosted_vllm/{model}", **address, **options)
        self._extra_body = dict(extra_body or {})

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[Any]:
        """As in `LiteLlm`; fields of the request win over fields of the model."""
        config = llm_request.config or types.GenerateContentConfig()
        body = {**self._extra_body, **extra_body_of(config)}
        if body:
            config = with_extra_body(config, body)
            llm_request = llm_request.model_copy(update={"config": config})
        async for response in super().generate_content_async(llm_request, stream=stream):
            yield response
