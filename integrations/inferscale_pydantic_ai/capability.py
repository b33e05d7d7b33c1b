"""`InferScaleMemory`: a capability with which each model request of an agent carries memory.

Owns where memory goes into a run and what a run leaves behind. Invariants: stateless, so one agent
serves many users at once; nothing of the memory reaches messages, instructions or traces.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, TextContent, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from inferscale import AsyncMemory, Memory
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.source import MemorySource, check_source, memory_of
from inferscale_shared.turn import Remember, TurnWriter, check_remember


class InferScaleMemory(AbstractCapability[Any]):
    """The memory of the user whom a run is for: `Agent(model, capabilities=[InferScaleMemory()])`.

    Args:
        memory: whose: a scope such as `{"user_id": "alice", "k": 20}`, a handle, or a function of
            the `RunContext` that gives one. Default: the ids (`user_id`, …) of the
            run's `deps`, an object or a dict.
        client: what writes; default: one from the environment.
        remember: what a run leaves behind: "user": what the user said; "turn": the output too, if
            it is text; "nothing".
        metadata: goes with everything that is remembered.
        raise_write_errors: True: an error of the sidecar ends the run. False: it is logged.

    Raises:
        InvalidArgumentError: malformed memory, or an unknown `remember`; from a run: it names
            nobody.
    """

    def __init__(
        self,
        memory: MemorySource = None,
        *,
        client: Memory | AsyncMemory | None = None,
        remember: Remember = "user",
        metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
    ) -> None:
        check_source(memory)
        check_remember(remember)
        self._source = memory
        self._clients = Clients.of(client)
        self._options: dict[str, Any] = {
            "remember": remember,
            "metadata": metadata,
            "raise_write_errors": raise_write_errors,
        }

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Fails early, and not after the answer, where nobody is named."""
        self._writer(ctx)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The request with memory, recalled with what the user said in this run."""
        settings = dict(request_context.model_settings or {})
        said = _text(ctx.prompt) or _last_prompt(request_context.messages)
        settings["extra_body"] = attach(settings.get("extra_body"), self._memory(ctx), said)
        return replace(request_context, model_settings=settings)

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Remembers the run, whose result stays as it is."""
        answer = result.output if isinstance(result.output, str) else None
        await self._writer(ctx).awrite([_text(ctx.prompt)], answer, turn_id=ctx.run_id)
        return result

    def _memory(self, ctx: RunContext[Any]) -> dict[str, Any]:
        return memory_of(self._source, ctx.deps if self._source is None else ctx)

    def _writer(self, ctx: RunContext[Any]) -> TurnWriter:
        return TurnWriter(self._clients, self._memory(ctx), **self._options)


def _text(content: Any) -> str:
    """The text of a user's prompt; "" if it has none."""
    parts = [content] if isinstance(content, str) else content or ()
    texts = [part.content if isinstance(part, TextContent) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def _last_prompt(messages: Any) -> str:
    """The user's last words in a history, for a run that brings none."""
    requests = (message for message in reversed(messages) if isinstance(message, ModelRequest))
    parts = (part for request in requests for part in reversed(request.parts))
    return next((_text(part.content) for part in parts if isinstance(part, UserPromptPart)), "")
