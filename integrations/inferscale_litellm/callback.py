"""`InferScaleCallback`: LiteLLM's requests to the sidecar carry memory, and leave some behind.

Owns where memory goes into a request of LiteLLM's. Invariants: only requests to the sidecar are
touched; an answer with memory in it is neither taken from LiteLLM's cache nor put there, for the
cache does not know whose it is.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from inferscale import AsyncMemory, Memory, OpenAI, memory_field
from inferscale_shared.attach import attach
from inferscale_shared.clients import Clients
from inferscale_shared.messages import last_said, user_texts
from inferscale_shared.turn import IDS, Remember, TurnWriter, check_remember

_CHATS = {"completion", "acompletion", "text_completion", "atext_completion"}


class InferScaleCallback(CustomLogger):
    """Memory for the library: `litellm.callbacks = [InferScaleCallback()]`.

    Whose memory is the `user` of a call: `litellm.acompletion(…, user="alice")`; or what the call
    names itself, `extra_body={"memory": {"user_id": "alice", "k": 50}}`, which wins. Blocking calls
    (`litellm.completion`) have no hook before the request: name it in `extra_body` there.

    Args:
        base_url: the sidecar's, to tell requests to it from others by their `api_base`; default
            INFERSCALE_BASE_URL.
        client: what writes; default: one from the environment.
        defaults: what else goes with a `user`, such as `{"k": 50, "fidelity": "exact"}`.
        remember: "user": what the user said last; "turn": the answer too; "nothing".
        metadata: goes with everything that is remembered.

    Raises:
        InvalidArgumentError: an unknown `remember`, or malformed `defaults`.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        client: Memory | AsyncMemory | None = None,
        defaults: Mapping[str, Any] | None = None,
        remember: Remember = "user",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_remember(remember)
        self._defaults = dict(defaults or {})
        memory_field({"user_id": "anyone", **self._defaults})
        with OpenAI(base_url=base_url) as resolved:  # it knows the environment and the default
            self._root = _root(resolved.base_url)
        self._clients = Clients.of(client)
        self._remember: Remember = remember
        self._metadata = metadata

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """The call with memory, if it goes to the sidecar."""
        if not is_chat(call_type) or not self._is_sidecar(kwargs.get("api_base")):
            return kwargs
        body = dict(kwargs.get("extra_body") or {})
        user = kwargs.get("user")
        if user and "memory" not in body:
            field = memory_field({**self._defaults, "user_id": user})
            body = attach(body, field, last_words(kwargs))
        return uncached({**kwargs, "extra_body": body}) if body.get("memory") else kwargs

    def log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Remembers the turn of a blocking call; LiteLLM calls it in a thread."""
        if turn := self._turn(kwargs, response_obj):
            writer, said, answer, call_id = turn
            if self._clients.awaiting is None:
                writer.write(said, answer, turn_id=call_id)
            else:
                asyncio.run(writer.awrite(said, answer, turn_id=call_id))

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Remembers the turn. LiteLLM calls it after the answer, also after a stream's end."""
        if turn := self._turn(kwargs, response_obj):
            writer, said, answer, call_id = turn
            try:
                await writer.awrite(said, answer, turn_id=call_id)
            except RuntimeError:  # the interpreter ends: LiteLLM calls back, but no thread starts
                writer.write(said, answer, turn_id=call_id)

    def _is_sidecar(self, api_base: Any) -> bool:
        return api_base is not None and _root(api_base) == self._root

    def _turn(
        self, kwargs: dict[str, Any], response: Any
    ) -> tuple[TurnWriter, list[str], str | None, str | None] | None:
        """What to write after a call: nothing unless it was one with memory of somebody."""
        options = kwargs.get("optional_params") or {}
        memory = (options.get("extra_body") or {}).get("memory") or {}
        said = _just_said(kwargs.get("messages"))
        if self._remember == "nothing" or not said or not any(memory.get(i) for i in IDS):
            return None
        writer = TurnWriter(self._clients, memory, remember=self._remember, metadata=self._metadata)
        choices = getattr(response, "choices", None) or [None]
        message = getattr(choices[0], "message", None)
        answer = getattr(message, "content", None)
        return writer, said, answer, kwargs.get("litellm_call_id")


def is_chat(call_type: Any) -> bool:
    """Whether requests of this kind (a `CallTypes`, or its name) take memory."""
    return getattr(call_type, "value", call_type) in _CHATS


def uncached(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The call, kept out of LiteLLM's cache of answers."""
    return {**kwargs, "cache": {**(kwargs.get("cache") or {}), "no-cache": True, "no-store": True}}


def _root(url: Any) -> str:
    return str(url).rstrip("/").removesuffix("/v1").rstrip("/")


def last_words(kwargs: Mapping[str, Any]) -> str | None:
    """What the user of a call said last, or its prompt; None if there is none."""
    prompt = kwargs.get("prompt")
    return prompt if isinstance(prompt, str) else last_said(kwargs.get("messages") or ())


def _just_said(messages: Any) -> list[str]:
    """The message that a request ends with, if it is the user's: else a tool's was answered."""
    return user_texts(messages[-1:]) if isinstance(messages, list) else []
