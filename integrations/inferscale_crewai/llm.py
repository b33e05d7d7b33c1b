"""`InferScaleLLM`: a model of CrewAI whose agents' requests carry a user's memory.

Owns where memory goes into a request. Invariants: the prompt stays as CrewAI made it; what CrewAI
asks on its own account (summaries, conversions, plans) carries no memory unless asked to.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from crewai.llms.providers.openai_compatible import OpenAICompatibleCompletion
from pydantic import PrivateAttr

from inferscale import MemoryHandle, OpenAI, memory_field
from inferscale_shared.attach import attach

SERVED = "inferscale"
"""The name for whatever model the sidecar serves, since CrewAI takes no empty one."""

if not hasattr(OpenAICompatibleCompletion, "_prepare_completion_params"):
    raise ImportError(
        "this version of crewai makes its requests in another way, so that memory would be lost; "
        "pip install 'inferscale-memory[crewai]'"
    )

_said: ContextVar[str | None] = ContextVar("inferscale_said", default=None)


class InferScaleLLM(OpenAICompatibleCompletion):
    """The sidecar's model, with the memory of one user: `Agent(llm=InferScaleLLM({"user_id": …}))`.

    CrewAI knows no users, so give each user's crew a model of its own. All calls of a task are
    answered from the memories that fit its description; an agent without a task, its input.

    Args:
        memory: a scope such as `{"user_id": "alice", "k": 20}`, or a handle or its id.
        model: default "inferscale": the model that the sidecar serves, whatever its name.
        base_url, api_key: the sidecar's; default INFERSCALE_BASE_URL, INFERSCALE_API_KEY.
        everywhere: True: calls that no agent makes carry memory too, such as `llm.call(…)`.
        options: `temperature`, `stream`, `additional_params` and whatever else `crewai.LLM` takes.

    Raises:
        InvalidArgumentError: `memory` is neither a scope nor a handle.
    """

    _memory: dict[str, Any] = PrivateAttr(default_factory=dict)
    _is_everywhere: bool = PrivateAttr(default=False)

    def __init__(
        self,
        memory: Mapping[str, Any] | MemoryHandle | str,
        *,
        model: str = SERVED,
        base_url: str | None = None,
        api_key: str | None = None,
        everywhere: bool = False,
        **options: Any,
    ) -> None:
        checked = memory_field(memory)
        with OpenAI(base_url=base_url, api_key=api_key) as client:
            address = {"base_url": str(client.base_url), "api_key": client.api_key}
        super().__init__(model=model, provider="hosted_vllm", **address, **options)
        self._memory, self._is_everywhere = checked, everywhere

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        """As in CrewAI, with memory."""
        with self._asking(messages, **options):
            return super().call(messages, *args, **options)

    async def acall(self, messages: Any, *args: Any, **options: Any) -> Any:
        """As in CrewAI, with memory."""
        with self._asking(messages, **options):
            return await super().acall(messages, *args, **options)

    @contextmanager
    def _asking(
        self, messages: Any, *, from_task: Any = None, from_agent: Any = None, **_: Any
    ) -> Iterator[None]:
        """Keeps what to search memory with until the request is put together."""
        said = None
        if from_task is not None:
            said = from_task.description
        elif from_agent is not None:  # what follows the first is CrewAI's own prodding
            said = _user_text(messages, 0)
        elif self._is_everywhere:
            said = _user_text(messages, -1)
        token = _said.set(said)
        try:
            yield
        finally:
            _said.reset(token)

    def _prepare_completion_params(self, *args: Any, **options: Any) -> dict[str, Any]:
        params: dict[str, Any] = super()._prepare_completion_params(*args, **options)
        if params["model"] == SERVED:
            params["model"] = ""
        said = _said.get()
        if said is not None:
            params["extra_body"] = attach(params.get("extra_body"), self._memory, said)
        return params


def _user_text(messages: str | Sequence[Mapping[str, Any]], which: int) -> str:
    if isinstance(messages, str):
        return messages
    texts = [_text(message["content"]) for message in messages if message["role"] == "user"]
    return texts[which] if texts else ""


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""
