"""`InferScaleMiddleware`: memory for agents made with `langchain.agents.create_agent`.

Owns when memory is recalled, attached and written. Invariants: one recall for each turn of the
user; the state holds a handle's id and never a memory's text; a turn is written once, however
often it is retried or resumed.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langgraph.types import Command

from inferscale import APIError, AsyncMemory, Memory, merge_extra_body
from inferscale_langchain._scope import ScopeSource, read_scope
from inferscale_langchain._turn import as_memory, query_of, turn_key, turn_of
from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, check_remember

log = logging.getLogger(__name__)

_HANDLE = "inferscale_handle"


class InferScaleState(AgentState[Any]):
    """The agent's state with the handle of the running turn: an id, not in input or output."""

    # LangChain's TypedDict is not type-checked here.
    inferscale_handle: NotRequired[Annotated[str | None, PrivateStateAttr]]  # type: ignore[valid-type]


class InferScaleMiddleware(AgentMiddleware[InferScaleState, Any, Any]):
    """Recalls before a turn, attaches to each of its model calls, and remembers after it.

    The agent's model must speak to the sidecar (`ChatInferScale`, or a `ChatOpenAI` with its
    `base_url`).

    Args:
        memory: default: one from the environment. Awaiting calls use it in a thread, unless
        async_memory: is given too (or only).
        scope: whose memory: ids, a function of the run's context that gives them, or None for the
            context's fields `user_id`, `agent_id`, `run_id` and `app_id`.
        k, threshold, filters, ttl_s: as in `Memory.recall`.
        remember: "user" writes what the user said, "turn" the final answer too, "nothing" nothing.
        metadata: goes with everything that is written.
        raise_write_errors: True: a turn that cannot be written fails, although it was answered.
            False: the error is logged.

    Raises:
        InvalidArgumentError: an argument that makes no sense.
    """

    state_schema = InferScaleState

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        async_memory: AsyncMemory | None = None,
        scope: ScopeSource = None,
        k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        ttl_s: int | None = None,
        remember: Remember = "user",
        metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
    ) -> None:
        super().__init__()
        check_remember(remember)
        self._clients = Clients(memory, async_memory)
        self._scope = scope
        self._options = {"k": k, "threshold": threshold, "filters": filters, "ttl_s": ttl_s}
        self._remember: Remember = remember
        self._metadata = metadata
        self._raise_write_errors = raise_write_errors

    # -- recall, once for a turn

    def before_agent(self, state: InferScaleState, runtime: Any) -> dict[str, Any]:
        """Recalls for the user's last message; keeps the handle's id in private state."""
        asked = self._recall_arguments(state, runtime)
        return {_HANDLE: self._clients.call("recall", **asked).id if asked else None}

    async def abefore_agent(self, state: InferScaleState, runtime: Any) -> dict[str, Any]:
        """As `before_agent`."""
        asked = self._recall_arguments(state, runtime)
        return {_HANDLE: (await self._clients.acall("recall", **asked)).id if asked else None}

    def _recall_arguments(self, state: Mapping[str, Any], runtime: Any) -> dict[str, Any] | None:
        query = query_of(state["messages"])
        scope = read_scope(self._scope, runtime.context)
        return {"query": query, **scope, **self._options} if query else None

    # -- attach, to every model call

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Names the turn's handle in the request; recalls again if it has expired meanwhile."""
        handle = request.state.get(_HANDLE)
        if handle is None:
            return handler(request)
        try:
            return handler(_attach(request, handle))
        except Exception as error:
            if not _is_stale(error):
                raise
        fresh = self.before_agent(request.state, request.runtime)
        return _renewed(handler(_attach(request, fresh[_HANDLE])), fresh)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """As `wrap_model_call`."""
        handle = request.state.get(_HANDLE)
        if handle is None:
            return await handler(request)
        try:
            return await handler(_attach(request, handle))
        except Exception as error:
            if not _is_stale(error):
                raise
        fresh = await self.abefore_agent(request.state, request.runtime)
        return _renewed(await handler(_attach(request, fresh[_HANDLE])), fresh)

    # -- remember, when the turn is over

    def after_agent(self, state: InferScaleState, runtime: Any) -> None:
        """Writes the turn."""
        if written := self._add_arguments(state, runtime):
            try:
                self._clients.call("add", **written)
            except APIError as error:
                self._on_write_error(error)

    async def aafter_agent(self, state: InferScaleState, runtime: Any) -> None:
        """As `after_agent`."""
        if written := self._add_arguments(state, runtime):
            try:
                await self._clients.acall("add", **written)
            except APIError as error:
                self._on_write_error(error)

    def _add_arguments(self, state: Mapping[str, Any], runtime: Any) -> dict[str, Any] | None:
        kept = turn_of(state["messages"], self._remember)
        if not kept:
            return None
        scope = read_scope(self._scope, runtime.context)
        info = getattr(runtime, "execution_info", None)
        thread_id = getattr(info, "thread_id", None)
        key = turn_key(kept, scope=scope, thread_id=thread_id, metadata=self._metadata)
        return {
            "messages": as_memory(kept),
            "metadata": self._metadata,
            "idempotency_key": key,
            **scope,
        }

    def _on_write_error(self, error: APIError) -> None:
        if self._raise_write_errors:
            raise error
        log.error("a turn was answered, but not remembered: %s", error)


def _attach(request: ModelRequest[Any], handle: str | None) -> ModelRequest[Any]:
    """The request with the handle in its body; everything else that was to go there is kept."""
    settings = request.model_settings
    # A call's extra_body replaces the model's own, so that one has to be repeated here.
    own = getattr(request.model, "extra_body", None) or {}
    body = {**own, **(settings.get("extra_body") or {})}
    return request.override(
        model_settings={**settings, "extra_body": merge_extra_body(body, handle)}
    )


def _is_stale(error: Exception) -> bool:
    """True for the sidecar's word for a handle that it does not know (any more).

    By attributes, for the error's class depends on the client that the model uses. A model that
    does not exist is a 404 too, but with another code.
    """
    status, code = getattr(error, "status_code", None), getattr(error, "code", None)
    return status == 404 and code == "not_found"


def _renewed(response: ModelResponse[Any], fresh: dict[str, Any]) -> ExtendedModelResponse[Any]:
    return ExtendedModelResponse(model_response=response, command=Command(update=fresh))
