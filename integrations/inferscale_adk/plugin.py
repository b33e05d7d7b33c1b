"""`InferScalePlugin`: every agent of an ADK app answers with its user's memory, and remembers.

Owns where memory goes into a request and when a turn is over. Invariants: whose memory it is comes
from the session; nothing of the memory reaches events, state or artifacts.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

from inferscale import AsyncMemory, Memory, memory_field
from inferscale_adk._content import extra_body_of, text_of, turns_of, with_extra_body
from inferscale_adk._scope import scope_of
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, TurnWriter

log = logging.getLogger(__name__)

VLLM = "hosted_vllm/"
"""What models of `LiteLlm` that may be the sidecar's are called. Others must not get the field."""

# The run whose tool is running here. ADK runs an agent that is a tool with the same plugins, but
# what it is asked are not the user's words.
_tool_of: ContextVar[str | None] = ContextVar("inferscale_tool_of", default=None)


class InferScalePlugin(BasePlugin):
    """Memory for an app: `App(name=…, root_agent=…, plugins=[InferScalePlugin()])`.

    Every model call of a run is answered from the memories that fit what the user said. When the
    run is over, what the user said is remembered.

    Args:
        memory: fields of a recall beside the ids, such as `{"k": 20}`.
        across_apps: False: a user has memories in each app, as in ADK. True: one memory for all.
        client: the client that writes; default: one from the environment.
        async_client: used instead, for runs on one event loop.
        remember: "user" writes what the user said, "turn" the answer too, "nothing" nothing.
        metadata: goes with everything that is written.
        raise_write_errors: True: an error of the sidecar ends the run. False: it is logged.

    Raises:
        InvalidArgumentError: an unknown field of a recall, or an unknown `remember`.
    """

    def __init__(
        self,
        memory: Mapping[str, Any] | None = None,
        *,
        across_apps: bool = False,
        client: Memory | None = None,
        async_client: AsyncMemory | None = None,
        remember: Remember = "user",
        metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
        name: str = "inferscale",
    ) -> None:
        super().__init__(name=name)
        checked = memory_field({"user_id": "anyone", **(memory or {})})
        self._recall = {key: value for key, value in checked.items() if key != "user_id"}
        self._across_apps = across_apps
        self._writer = partial(
            TurnWriter,
            Clients(client, async_client),
            remember=remember,
            metadata=metadata,
            raise_write_errors=raise_write_errors,
        )
        self._writer({"user_id": "anyone"})  # refuses what is wrong now, and not after a run
        self._warned: set[str] = set()

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Names the user's memory in the request."""
        model = llm_request.model or ""
        if not model.startswith(VLLM):
            if model not in self._warned:
                self._warned.add(model)
                log.warning("the model %s is not the sidecar's: it is asked without memory", model)
            return
        session, config = callback_context.session, llm_request.config
        said = text_of(callback_context.user_content)
        memory = {**self._recall, **self._scope(session)}
        llm_request.config = with_extra_body(config, attach(extra_body_of(config), memory, said))

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> None:
        """A tool begins, as a rule in a task of its own."""
        if _tool_of.get() is None:
            _tool_of.set(tool_context.invocation_id)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Remembers the run."""
        session, name = invocation_context.session, invocation_context.invocation_id
        if _tool_of.get() not in (None, name):
            return
        _tool_of.set(None)
        said, answer = turns_of(session.events).get(name, ([], None))
        await self._writer(self._scope(session)).awrite(said, answer, turn_id=name)

    def _scope(self, session: Any) -> dict[str, str]:
        return scope_of(session.app_name, session.user_id, across_apps=self._across_apps)
