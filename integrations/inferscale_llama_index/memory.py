"""`InferScaleMemory`: LlamaIndex's chat memory, whose user messages outlive the session.

Owns what is written to long-term memory. The session itself is `Memory`'s. Invariant: only what was
said is remembered, once it is answered, and a chat never fails because of it unless asked to.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import Memory as ChatMemory
from pydantic import Field, PrivateAttr

from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, TurnWriter


class InferScaleMemory(ChatMemory):
    """A `Memory` that also remembers what the user says, for an `InferScaleLLM` to recall.

    Make it with `from_defaults`. Blocks of `Memory` get messages only when a session overflows;
    this one writes each turn, when its answer is put.

    Args:
        scope: whose memory, such as `{"user_id": "alice"}`.
        client: `inferscale.Memory` or `AsyncMemory`; default: one from the environment. Chat
            engines' blocking calls need the former.
        remember: "user": what the user said; "turn": the answer too; "nothing".
        raise_write_errors: True: an error of the sidecar is raised. False: it is logged.
    """

    scope: dict[str, Any]
    client: Any = Field(default=None, exclude=True, repr=False)
    remember: Remember = "user"
    raise_write_errors: bool = False
    _writer: TurnWriter = PrivateAttr()
    _said: list[str] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any, /) -> None:
        """Checks the arguments. Raises InvalidArgumentError."""
        super().model_post_init(context)
        self._writer = TurnWriter(
            Clients.of(self.client),
            self.scope,
            remember=self.remember,
            raise_write_errors=self.raise_write_errors,
        )

    @classmethod
    def class_name(cls) -> str:
        """As LlamaIndex writes it down."""
        return "InferScaleMemory"

    @classmethod
    def from_defaults(cls, *args: Any, scope: dict[str, Any], **options: Any) -> Self:
        """As `Memory.from_defaults`, with this class's arguments too.

        Raises:
            InvalidArgumentError: `scope` names nobody, or an unknown `remember`.
        """
        names = cls.model_fields.keys() - ChatMemory.model_fields.keys()
        ours = {name: options.pop(name) for name in names if name in options}
        plain = ChatMemory.from_defaults(*args, **options)
        fields = {name: getattr(plain, name) for name in ChatMemory.model_fields}
        return cls(**fields, scope=scope, **ours)

    async def aput(self, message: ChatMessage) -> None:
        """Adds to the session; an answer completes the turn, which is remembered."""
        await super().aput(message)
        await self._note([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """See `aput`."""
        await super().aput_messages(messages)
        await self._note(messages)

    async def areset(self, *args: Any, **options: Any) -> None:
        """Empties the session. What was remembered stays."""
        await super().areset(*args, **options)
        self._said = []

    async def _note(self, messages: Sequence[ChatMessage]) -> None:
        self._said += _texts(messages, MessageRole.USER)
        answers = _texts(messages, MessageRole.ASSISTANT)
        if self._said and answers:
            said, self._said = self._said, []
            await self._writer.awrite(said, answers[-1])


def _texts(messages: Iterable[ChatMessage], role: MessageRole) -> list[str]:
    return [message.content for message in messages if message.role == role and message.content]
