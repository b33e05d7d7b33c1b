"""`InferScaleProvider`: a context provider with which each model call of an agent carries memory.

Owns where memory goes into a run and what a run leaves behind. Invariants: stateless, so one agent
serves many users at once; nothing of the memory reaches messages, sessions or their state.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from agent_framework import AgentSession, ChatContext, ChatMiddleware, ContextProvider, Message
from agent_framework import SessionContext as RunContext

from inferscale import AsyncMemory, Memory
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.source import MemorySource, check_source, memory_of
from inferscale_shared.turn import Remember, TurnWriter, check_remember


class InferScaleProvider(ContextProvider):
    """The memory of a session's user: `Agent(client, context_providers=[InferScaleProvider()])`.

    Args:
        memory: whose: a scope such as `{"user_id": "alice", "k": 20}`, a handle, or a function of
            the `AgentSession` that gives one. Default: the ids (`user_id`, …) of
            `session.state`.
        client: what writes; default: one from the environment.
        remember: what a run leaves behind: "user": what the user said; "turn": the answer too;
            "nothing".
        metadata: goes with everything that is remembered.
        raise_write_errors: True: an error of the sidecar ends the run. False: it is logged.
        source_id: tells this provider from others.

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
        source_id: str = "inferscale",
    ) -> None:
        check_source(memory)
        check_remember(remember)
        super().__init__(source_id)
        self._source = memory
        self._clients = Clients.of(client)
        self._options: dict[str, Any] = {
            "remember": remember,
            "metadata": metadata,
            "raise_write_errors": raise_write_errors,
        }

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: RunContext, state: dict[str, Any]
    ) -> None:
        """Has the run's model calls name memory. Fails here, and early, where nobody is named."""
        self._writer(session)
        said = next(iter(reversed(_said(context.input_messages))), None)
        context.extend_middleware(self.source_id, _Attach(self._memory(session), said))

    async def after_run(
        self, *, agent: Any, session: AgentSession, context: RunContext, state: dict[str, Any]
    ) -> None:
        """Remembers the run."""
        answer = context.response.text if context.response else None
        asked = _said(context.input_messages)
        await self._writer(session).awrite(asked, answer)

    def _memory(self, session: AgentSession) -> dict[str, Any]:
        return memory_of(self._source, session.state if self._source is None else session)

    def _writer(self, session: AgentSession) -> TurnWriter:
        return TurnWriter(self._clients, self._memory(session), **self._options)


class _Attach(ChatMiddleware):
    """Names one run's memory in each of its model calls, with what the user said in the run.

    A run that only answers a tool's question brings no words: the thread's last ones are searched
    with, which are those of the turn that goes on.
    """

    def __init__(self, memory: Mapping[str, Any], said: str | None) -> None:
        self._memory = memory
        self._asked = said

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        options = dict(context.options or {})
        asked = self._asked or next(iter(reversed(_said(context.messages))), None)
        options["extra_body"] = attach(options.get("extra_body"), self._memory, asked)
        context.options = options
        await call_next()


def _said(messages: Iterable[Message]) -> list[str]:
    """The texts of the user's messages, without blank ones."""
    return [message.text for message in messages if message.role == "user" and message.text.strip()]
