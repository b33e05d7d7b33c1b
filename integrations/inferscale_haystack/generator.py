"""`InferScaleChatGenerator`: the sidecar's model in Haystack, with a user's memory in its requests.

Owns where memory goes into a run and what a turn leaves behind. Invariants: stateless but for its
connections, so one component serves many users at once; nothing of the memory reaches messages or
an agent's state.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any

from haystack import component
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from haystack.utils.http_client import init_http_client

from inferscale import AsyncOpenAI, InvalidArgumentError, OpenAI, memory_field
from inferscale_haystack._connection import Connection
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, TurnWriter, check_remember


@component
class InferScaleChatGenerator(OpenAIChatGenerator):
    """The model that the sidecar serves, with memory, in pipelines and in an `Agent`.

    Whose memory a run carries is said by the run, `generation_kwargs={"memory": {"user_id": …}}`,
    or else by the component.

    Args:
        memory: a scope such as `{"user_id": "alice", "k": 20}`, or a handle's id. Default: every
            run says.
        remember: what a turn leaves behind when it is answered: "user": what the user said;
            "turn": the answer too; "nothing".
        memory_metadata: goes with everything that is remembered.
        raise_write_errors: True: an error of the sidecar ends the run. False: it is logged.
        model: default: the model that the sidecar serves, whatever its name.
        api_key: the sidecar's; default INFERSCALE_API_KEY.
        api_base_url: the sidecar's; default INFERSCALE_BASE_URL.
        options: everything else goes to `OpenAIChatGenerator`.

    Raises:
        InvalidArgumentError: malformed memory, or an unknown `remember`; from a run: it names
            nobody (`"memory": None` is a run without memory).
    """

    client: OpenAI | None
    async_client: AsyncOpenAI | None

    def __init__(
        self,
        memory: Mapping[str, Any] | str | None = None,
        *,
        remember: Remember = "user",
        memory_metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
        model: str = "",
        api_key: Secret = Secret.from_env_var("INFERSCALE_API_KEY", strict=False),  # noqa: B008
        api_base_url: str | None = None,
        **options: Any,
    ) -> None:
        check_remember(remember)
        if "memory" in (options.get("generation_kwargs") or {}):
            raise InvalidArgumentError("generation_kwargs names memory; pass memory=… instead.")
        self.memory = None if memory is None else memory_field(memory)
        self.remember = remember
        self.memory_metadata = memory_metadata
        self.raise_write_errors = raise_write_errors
        self._connection = Connection(api_key, api_base_url)
        # not super(): Haystack makes another class of this one
        super(InferScaleChatGenerator, self).__init__(  # noqa: UP008
            api_key=api_key, model=model, api_base_url=api_base_url, **options
        )

    def warm_up(self) -> None:
        """Makes the blocking client."""
        if self.client is None:
            http_client = init_http_client(self.http_client_kwargs, async_client=False)
            self.client = OpenAI(http_client=http_client, **self._client_kwargs())

    async def warm_up_async(self) -> None:
        """Makes the awaiting client, of the running event loop."""
        if self.async_client is None:
            http_client = init_http_client(self.http_client_kwargs, async_client=True)
            self.async_client = AsyncOpenAI(http_client=http_client, **self._client_kwargs())

    def close(self) -> None:
        """Releases the blocking clients."""
        self._connection.close()
        super(InferScaleChatGenerator, self).close()  # noqa: UP008

    async def close_async(self) -> None:
        """Releases the awaiting clients."""
        await self._connection.close_async()
        await super(InferScaleChatGenerator, self).close_async()  # noqa: UP008

    def to_dict(self) -> dict[str, Any]:
        """The component without its connections."""
        data: dict[str, Any] = super(InferScaleChatGenerator, self).to_dict()  # noqa: UP008
        names = ("memory", "remember", "memory_metadata", "raise_write_errors")
        data["init_parameters"] |= {name: getattr(self, name) for name in names}
        return data

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any = None,
        tools_strict: bool | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """As in `OpenAIChatGenerator`, with memory; remembers the turn when it is answered."""
        said, arguments, writer = self._turn(messages, generation_kwargs, self._connection.blocking)
        parent: Any = super(InferScaleChatGenerator, self)  # noqa: UP008
        found: dict[str, list[ChatMessage]] = parent.run(
            messages, streaming_callback, arguments, tools=tools, tools_strict=tools_strict
        )
        if writer and _is_answered(found["replies"]):
            writer.write(said, found["replies"][0].text)
        return found

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: Any = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: Any = None,
        tools_strict: bool | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """As `run`, awaiting."""
        said, arguments, writer = self._turn(messages, generation_kwargs, self._connection.awaiting)
        parent: Any = super(InferScaleChatGenerator, self)  # noqa: UP008
        found: dict[str, list[ChatMessage]] = await parent.run_async(
            messages, streaming_callback, arguments, tools=tools, tools_strict=tools_strict
        )
        if writer and _is_answered(found["replies"]):
            await writer.awrite(said, found["replies"][0].text)
        return found

    def _turn(
        self,
        messages: list[ChatMessage] | str,
        generation_kwargs: Mapping[str, Any] | None,
        clients: Callable[[], Clients],
    ) -> tuple[list[str], dict[str, Any], TurnWriter | None]:
        """What the user says in this turn, the run's arguments with memory, and who remembers."""
        arguments = {**self.generation_kwargs, **(generation_kwargs or {})}
        body, said = dict(arguments.get("extra_body") or {}), said_in(messages)
        memory = _whose(body, arguments, {} if self.memory is None else {"memory": self.memory})
        for source in (body, arguments):
            source.pop("memory", None)
        if memory is None:
            return said, arguments | {"extra_body": body}, None
        named = memory_field(memory)
        writer = TurnWriter(
            clients(),
            named,
            remember=self.remember,
            metadata=self.memory_metadata,
            raise_write_errors=self.raise_write_errors,
        )
        query = said[-1] if said else None
        return said, arguments | {"extra_body": attach(body, named, query)}, writer


def said_in(messages: Sequence[ChatMessage] | str) -> list[str]:
    """The texts of the user's messages that stand together at the end of what users wrote."""
    if isinstance(messages, str):
        return [messages]
    turn: list[str] = []
    rest = dropwhile(lambda message: not message.is_from("user"), reversed(messages))
    for message in takewhile(lambda message: message.is_from("user"), rest):
        turn.insert(0, "\n".join(message.texts))
    return [text for text in turn if text.strip()]


def _whose(*sources: Mapping[str, Any]) -> Any:
    """The memory that the first of the sources names; None if it names none on purpose."""
    for source in sources:
        if "memory" in source:
            return source["memory"]
    raise InvalidArgumentError(
        "whose memory? Give it to the component, or to each run: "
        "generation_kwargs={'memory': {'user_id': …}}; {'memory': None} is a run without memory."
    )


def _is_answered(replies: Sequence[ChatMessage]) -> bool:
    return bool(replies) and not any(reply.tool_calls for reply in replies)
