"""`InferScaleModel`: a chat model of the Agents SDK whose requests carry a user's memory.

Owns where memory goes into a request. Invariants: stateless, so one model may serve many runs of
its user at once; nothing of the memory reaches items, sessions or traces.
"""

import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agents import ModelSettings, OpenAIChatCompletionsModel

from inferscale import AsyncOpenAI, memory_field
from inferscale_shared.attach import attach
from inferscale_shared.messages import last_said


class InferScaleModel(OpenAIChatCompletionsModel):
    """The sidecar's model, with the memory of one user (or agent, or run).

    A run cannot tell its model who is asking, so give each run the model of its user:
    `Runner.run(agent, text, run_config=RunConfig(model=InferScaleModel({"user_id": "alice"})))`.

    Args:
        memory: a scope such as `{"user_id": "alice", "k": 20}`, to recall from with the user's
            last message, the same in each model call of a turn; or a handle's id.
        model: default "", which is the model that the sidecar serves, whatever its name.
        openai_client: default: one from the environment. Share it between models.

    Raises:
        InvalidArgumentError: `memory` is neither a scope nor a handle's id.
    """

    def __init__(
        self,
        memory: Mapping[str, Any] | str,
        *,
        model: str = "",
        openai_client: AsyncOpenAI | None = None,
        **options: Any,
    ) -> None:
        self._memory = memory_field(memory)
        super().__init__(model, openai_client or AsyncOpenAI(), **options)

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: ModelSettings,
        *args: Any,
        **options: Any,
    ) -> Any:
        """As in `OpenAIChatCompletionsModel`, with memory."""
        settings = self._with_memory(model_settings, input)
        return await super().get_response(system_instructions, input, settings, *args, **options)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: ModelSettings,
        *args: Any,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """As in `OpenAIChatCompletionsModel`, with memory."""
        settings = self._with_memory(model_settings, input)
        async for event in super().stream_response(
            system_instructions, input, settings, *args, **options
        ):
            yield event

    def _with_memory(self, settings: ModelSettings, given: Any) -> ModelSettings:
        """The settings with memory in their body, unless the run names another one itself."""
        body = attach(settings.extra_body, self._memory, last_said(given))
        return dataclasses.replace(settings, extra_body=body)
