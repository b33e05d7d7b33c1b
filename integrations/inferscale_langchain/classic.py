"""`InferScaleMemory`: LangChain's first memory interface, for chains of `langchain-classic`.

Owns the mapping of a chain's inputs and outputs. A chain has no place for a handle, so memory goes
into the prompt as text; a `ChatInferScale(memory=…)` as the chain's model injects it instead.
"""

from typing import Any

from langchain_classic.base_memory import BaseMemory
from pydantic import Field, PrivateAttr

from inferscale import AsyncMemory, InvalidArgumentError, Memory
from inferscale_langchain._scope import read_scope
from inferscale_shared.clients import Clients


class InferScaleMemory(BaseMemory):
    """What is known that fits the chain's input, as one text under `memory_key`.

    Args:
        memory, async_memory: as in `InferScaleMiddleware`.
        user_id, agent_id, run_id, app_id: whose memory; at least one.
        memory_key: the prompt's variable.
        input_key: which of the chain's inputs is the user's; needed if there are several.
        k: recall at most so many.
        remember_answers: True: write the chain's answers too, not only what the user said.
    """

    memory: Memory | None = Field(default=None, exclude=True)
    async_memory: AsyncMemory | None = Field(default=None, exclude=True)
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None
    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    k: int = 20
    remember_answers: bool = False
    _clients: Clients = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Checks the scope. Raises InvalidArgumentError if there is none."""
        super().model_post_init(context)
        self._clients = Clients(self.memory, self.async_memory)
        self._scope()

    @property
    def memory_variables(self) -> list[str]:
        """The one key that `load_memory_variables` gives."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Recalls for the user's input."""
        asked = self._recall_arguments(inputs)
        return {self.memory_key: str(self._clients.call("recall", **asked)) if asked else ""}

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """As `load_memory_variables`."""
        asked = self._recall_arguments(inputs)
        return {self.memory_key: str(await self._clients.acall("recall", **asked)) if asked else ""}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        """Remembers the turn."""
        if messages := self._said(inputs, outputs):
            self._clients.call("add", messages, **self._scope())

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, str]) -> None:
        """As `save_context`."""
        if messages := self._said(inputs, outputs):
            await self._clients.acall("add", messages, **self._scope())

    def clear(self) -> None:
        """Forgets everything in the scope."""
        self._clients.call("delete_all", **self._scope())

    async def aclear(self) -> None:
        """As `clear`."""
        await self._clients.acall("delete_all", **self._scope())

    def _scope(self) -> dict[str, str]:
        return read_scope(None, self)

    def _recall_arguments(self, inputs: dict[str, Any]) -> dict[str, Any] | None:
        query = self._one("input", inputs, self.input_key).strip()
        return {"query": query, "k": self.k, **self._scope()} if query else None

    def _said(self, inputs: dict[str, Any], outputs: dict[str, str]) -> list[dict[str, str]]:
        said = [{"role": "user", "content": self._one("input", inputs, self.input_key)}]
        if self.remember_answers:
            answer = self._one("output", outputs, self.output_key)
            said.append({"role": "assistant", "content": answer})
        return [message for message in said if message["content"].strip()]

    def _one(self, kind: str, values: dict[str, Any], key: str | None) -> str:
        """The text under `key`, or the only one there is."""
        names = [name for name in values if name not in (self.memory_key, "stop")]
        if key is None and len(names) != 1:
            raise InvalidArgumentError(
                f"the chain has the {kind}s {sorted(names)}; say which one with {kind}_key."
            )
        name = names[0] if key is None else key
        if name not in values:
            raise InvalidArgumentError(f"the chain has no {kind} {name!r}: {sorted(values)}.")
        return str(values[name])
