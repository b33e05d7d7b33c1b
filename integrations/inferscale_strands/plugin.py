"""`InferScalePlugin`: an agent of Strands whose requests carry memory, and that remembers.

Owns where memory goes into a request and when a turn is over. Invariants: nothing of the memory
reaches the agent's messages, state or session; the agent's model is never changed.
"""

import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from strands.hooks import AfterInvocationEvent, BeforeInvocationEvent, HookOrder
from strands.middleware import InvokeModelContext, InvokeModelStage
from strands.models.openai import OpenAIModel
from strands.plugins import Plugin

from inferscale import AsyncMemory, InvalidArgumentError, Memory, MemoryHandle, memory_field
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, TurnWriter
from inferscale_strands._messages import text_of, user_texts


class InferScalePlugin(Plugin):
    """Memory for an agent: `Agent(InferScaleModel(), plugins=[InferScalePlugin({"user_id": …})])`.

    An agent of Strands holds one thread of one user, and so does its plugin. Every model call of a
    turn is answered from the same memories, those that fit what the user said last. Once a turn is
    answered, what the user said is remembered.

    Args:
        memory: a scope such as `{"user_id": "alice", "k": 20}`, or a handle or its id.
        client: the client that writes; default: one from the environment.
        async_client: used instead, for agents that are awaited on one event loop.
        remember: "user" (default for a scope) writes what the user said, "turn" the answer too,
            "nothing" (default for a handle) nothing.
        metadata: goes with everything that is written.
        raise_write_errors: True: an error of the sidecar ends the turn. False: it is logged.

    Raises:
        InvalidArgumentError: `memory` is neither a scope nor a handle, or a handle that is to be
            written to.
    """

    name = "inferscale"

    def __init__(
        self,
        memory: Mapping[str, Any] | MemoryHandle | str,
        *,
        client: Memory | None = None,
        async_client: AsyncMemory | None = None,
        remember: Remember | None = None,
        metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
    ) -> None:
        self._memory = memory_field(memory)
        self._writer: TurnWriter | None = None
        if (remember or ("nothing" if "handle" in self._memory else "user")) != "nothing":
            self._writer = TurnWriter(
                Clients(client, async_client),
                self._memory,
                remember=remember or "user",
                metadata=metadata,
                raise_write_errors=raise_write_errors,
            )
        self._said: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()
        super().__init__()

    def init_agent(self, agent: Any) -> None:
        """Called by the agent.

        Memory is attached in the phase in which routers have chosen the model, and a turn's words
        are taken down last, when guardrails have done with them.
        """
        agent.add_middleware(InvokeModelStage, self._attach)
        agent.add_hook(self._start, BeforeInvocationEvent, order=HookOrder.SDK_LAST)
        agent.add_hook(self._end, AfterInvocationEvent)

    async def _attach(self, context: InvokeModelContext, call: Any) -> AsyncIterator[Any]:
        async for event in call(context.replace(model=self._with_memory(context))):
            yield event

    def _with_memory(self, context: InvokeModelContext) -> Any:
        """A copy of the call's model that names memory in its requests."""
        if not isinstance(context.model, OpenAIModel):
            raise InvalidArgumentError(
                f"memory cannot be attached to a {type(context.model).__name__}; the agent's model "
                "must be an InferScaleModel, or an OpenAIModel whose base_url is the sidecar's."
            )
        model = copy.copy(context.model)
        params = dict(model.config.get("params") or {})
        said = self._said.get(context.agent) or user_texts(context.agent.messages)
        params["extra_body"] = attach(
            params.get("extra_body"), self._memory, said[-1] if said else None
        )
        model.config = {**model.config, "params": params}
        return model

    async def _start(self, event: BeforeInvocationEvent) -> None:
        """A turn begins, or goes on after an interrupt; what it is to answer is kept."""
        said = self._said.setdefault(event.agent, [])
        said += user_texts(event.messages or ())

    async def _end(self, event: AfterInvocationEvent) -> None:
        """Remember the turn, unless it was interrupted or failed."""
        if event.result is not None and event.result.stop_reason == "interrupt":
            return
        said = self._said.pop(event.agent, [])
        if event.result is not None and self._writer is not None:
            answer = text_of(event.result.message)
            await self._writer.awrite(said, answer)
