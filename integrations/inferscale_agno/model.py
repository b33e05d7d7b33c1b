"""`InferScaleModel`: a model of Agno whose requests carry the memory of the run's user.

Owns where memory goes into a run and what a run leaves behind. Invariants: stateless but for its
connections, so one model serves many users at once; nothing of the memory reaches messages,
sessions or their state; a call outside of a run (a session's name, a summary) carries none.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agno.models.openai.like import OpenAILike
from agno.models.response import ModelResponse

from inferscale import AsyncMemory, AsyncOpenAI, InvalidArgumentError, Memory, OpenAI
from inferscale_agno._run import answer_of, query_of, said_in
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.source import MemorySource, check_source, memory_of
from inferscale_shared.turn import Remember, TurnWriter, check_remember

_CLIENT = ("api_key", "base_url", "timeout", "max_retries", "default_headers", "default_query")


@dataclass
class InferScaleModel(OpenAILike):
    """The model that the sidecar serves, with memory: `Agent(model=InferScaleModel())`.

    All arguments of `OpenAILike`, with other defaults, and:

    Args:
        memory: whose: a scope such as `{"user_id": "alice", "k": 20}`, a handle, or a function of
            the `RunOutput` that gives one. Default: the run's `user_id`.
        memory_client: what writes; default: one from the environment.
        remember: what a run leaves behind: "user": what the user said; "turn": the answer too;
            "nothing".
        memory_metadata: goes with everything that is remembered.
        raise_write_errors: True: an error of the sidecar ends the run. False: it is logged.

    Raises:
        InvalidArgumentError: malformed memory, an unknown `remember`, or `cache_response`, whose
            answers are anybody's; from a run: it names nobody.
    """

    id: str = ""
    name: str = "InferScale"
    provider: str = "VLLM"  # Agno leaves out of its tools what vLLM does not know
    api_key: str | None = None
    client: OpenAI | None = None
    async_client: AsyncOpenAI | None = None
    memory: MemorySource = None
    memory_client: Memory | AsyncMemory | None = None
    remember: Remember = "user"
    memory_metadata: Mapping[str, Any] | None = None
    raise_write_errors: bool = False
    _clients: Clients = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_source(self.memory)
        check_remember(self.remember)
        if self.cache_response:
            raise InvalidArgumentError(
                "cache_response=True would give one user's answers to another; leave it out."
            )
        if self.http_client is not None:
            raise InvalidArgumentError(
                "http_client is not used; pass client=inferscale.OpenAI(http_client=…) and "
                "async_client=inferscale.AsyncOpenAI(http_client=…)."
            )
        self._clients = Clients.of(self.memory_client)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """As Agno copies models: connections are shared, the memory's too."""
        for shared in (self.memory, self.memory_client, self._clients):
            memo[id(shared)] = shared
        return super().__deepcopy__(memo)

    def get_client(self) -> OpenAI:
        """The blocking client, made when it is first needed."""
        if self.client is None or self.client.is_closed():
            self.client = OpenAI(**self._get_client_params())
        return self.client

    def get_async_client(self) -> AsyncOpenAI:
        """The awaiting client, made when it is first needed. Lives on one event loop."""
        if self.async_client is None or self.async_client.is_closed():
            self.async_client = AsyncOpenAI(**self._get_client_params())
        return self.async_client

    def _get_client_params(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _CLIENT}
        params = {name: value for name, value in given.items() if value is not None}
        return params | (self.client_params or {})

    def get_request_params(self, *args: Any, run_response: Any = None, **more: Any) -> Any:
        """As in `OpenAILike`, with memory, recalled with what the user said in this run."""
        params = super().get_request_params(*args, run_response=run_response, **more)
        if run_response is None:
            return params
        memory, query = self._memory(run_response), query_of(run_response)
        return params | {"extra_body": attach(params.get("extra_body"), memory, query)}

    def response(self, *args: Any, run_response: Any = None, **more: Any) -> ModelResponse:
        """As in `OpenAILike`; remembers the run."""
        writer = self._writer(run_response)
        response = super().response(*args, run_response=run_response, **more)
        if writer:
            writer.write(*_turn(run_response, response))
        return response

    async def aresponse(self, *args: Any, run_response: Any = None, **more: Any) -> ModelResponse:
        """As in `OpenAILike`; remembers the run."""
        writer = self._writer(run_response)
        response = await super().aresponse(*args, run_response=run_response, **more)
        if writer:
            await writer.awrite(*_turn(run_response, response))
        return response

    def response_stream(self, *args: Any, run_response: Any = None, **more: Any) -> Iterator[Any]:
        """As in `OpenAILike`; remembers the run when the stream is at its end."""
        writer, seen = self._writer(run_response), []
        for event in super().response_stream(*args, run_response=run_response, **more):
            seen.append(event)
            yield event
        if writer:
            writer.write(*_turn(run_response, *seen))

    async def aresponse_stream(
        self, *args: Any, run_response: Any = None, **more: Any
    ) -> AsyncIterator[Any]:
        """As in `OpenAILike`; remembers the run when the stream is at its end."""
        writer, seen = self._writer(run_response), []
        async for event in super().aresponse_stream(*args, run_response=run_response, **more):
            seen.append(event)
            yield event
        if writer:
            await writer.awrite(*_turn(run_response, *seen))

    def _memory(self, run: Any) -> dict[str, Any]:
        # a run's own agent_id and run_id are Agno's, and new for each agent and run
        whose = {"user_id": run.user_id} if self.memory is None else run
        return memory_of(self.memory, whose)

    def _writer(self, run: Any) -> TurnWriter | None:
        """Fails early, and not after the answer, where nobody is named."""
        if run is None:
            return None
        return TurnWriter(
            self._clients,
            self._memory(run),
            remember=self.remember,
            metadata=self.memory_metadata,
            raise_write_errors=self.raise_write_errors,
        )


def _turn(run: Any, *events: Any) -> tuple[list[str], str | None]:
    return said_in(run), answer_of(events)
