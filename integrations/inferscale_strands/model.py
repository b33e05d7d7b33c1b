"""`InferScaleModel`: Strands' OpenAI model, pointed at the sidecar.

Owns the client. Memory is the plugin's: what Strands asks a model for on its own, such as a summary
of the thread, must not have memory in it, for its answer becomes part of the thread.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from strands.models.openai import OpenAIModel

from inferscale import AsyncOpenAI


class InferScaleModel(OpenAIModel):
    """The model that the sidecar serves. Address and key are those of the environment.

    Args:
        client: one client for all requests; it lives on one event loop, so only for agents that
            are awaited. Default: a new one for each request, as in `OpenAIModel`.
        client_args: for those, such as `{"base_url": …, "api_key": …}`.
        model_id: default "", which is the model that the sidecar serves, whatever its name.
        config: `params` and whatever else `OpenAIModel` takes.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        client_args: dict[str, Any] | None = None,
        *,
        model_id: str = "",
        **config: Any,
    ) -> None:
        if not hasattr(OpenAIModel, "_get_client"):  # it would then talk to OpenAI instead
            raise ImportError(
                "this version of strands-agents makes its clients in another way; "
                "pip install 'inferscale-memory[strands]'"
            )
        super().__init__(client, client_args, model_id=model_id, **config)

    def format_request(self, *args: Any, **options: Any) -> dict[str, Any]:
        """As in `OpenAIModel`, without an empty list of tools, which vLLM refuses."""
        request = super().format_request(*args, **options)
        return {name: value for name, value in request.items() if name != "tools" or value}

    @asynccontextmanager
    async def _get_client(self) -> AsyncIterator[Any]:
        if self._custom_client is not None:
            yield self._custom_client
            return
        async with AsyncOpenAI(**self.client_args) as client:
            yield client
