"""Operations of the chat endpoint and its reports. Pure, as `_operations`."""

from collections.abc import Mapping
from typing import Any

import httpx

from inferscale._attach import MemoryLike, memory_field
from inferscale._chat import ChatCompletion
from inferscale._dialect import ID_NAMES, Scope, scope_ids
from inferscale._messages import Messages, chat_messages
from inferscale._operation import Operation, reads
from inferscale._results import MemoryReport
from inferscale._validate import encode_json, path_id
from inferscale.errors import InvalidArgumentError
from inferscale.protocol.chat import REPORT_HEADER


def chat(body: Mapping[str, Any], *, timeout_s: float | None) -> Operation[ChatCompletion]:
    return Operation(
        "POST",
        "/v1/chat/completions",
        _read_completion,
        content=encode_json({**body, "stream": False}),
        timeout_s=timeout_s,
    )


def stream_chat(body: Mapping[str, Any], *, timeout_s: float | None) -> Operation[httpx.Response]:
    return Operation(
        "POST",
        "/v1/chat/completions",
        lambda response: response,
        content=encode_json({**body, "stream": True}),
        headers={"Accept": "text/event-stream"},
        stream=True,
        timeout_s=timeout_s,
    )


def chat_body(
    messages: Messages,
    *,
    memory: MemoryLike | None,
    scope: Scope,
    k: int | None,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Body of a chat request. `params` goes through as it is, except for those that are None."""
    given: dict[str, Any] = {name: value for name, value in scope.items() if value is not None}
    if memory is not None and (given or k is not None):
        raise InvalidArgumentError(
            f"give memory=…, or {ID_NAMES} (and k) to recall from; not both."
        )
    if given:
        memory = {**scope_ids(scope), **({} if k is None else {"k": k})}
    elif k is not None:
        raise InvalidArgumentError(f"k is given, but no {ID_NAMES} to recall from.")
    body = {"messages": chat_messages(messages)}
    body |= {name: value for name, value in params.items() if value is not None}
    return body if memory is None else {**body, "memory": memory_field(memory)}


def report(request_id: str) -> Operation[MemoryReport]:
    return Operation("GET", f"/v1/reports/{path_id(request_id)}", reads(MemoryReport))


def _read_completion(response: httpx.Response) -> ChatCompletion:
    answer = ChatCompletion.model_validate(response.json())
    return answer.model_copy(update={"request_id": response.headers.get(REPORT_HEADER)})
