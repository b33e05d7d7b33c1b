"""What vLLM makes of the bodies of its other endpoints: a chat request, and an answer."""

from typing import Any


def as_chat(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The chat request that vLLM makes of this one."""
    if path == "/v1/responses":
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        return {**body, "messages": [*_system(body.get("instructions")), *items]}
    if path == "/v1/messages":
        system = body.get("system")
        if isinstance(system, list):
            system = "".join(part["text"] for part in system)
        return {**body, "messages": [*_system(system), *body["messages"]]}
    return body


def _system(text: str | None) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text}] if text else []


def answer(path: str, num_tokens: int) -> dict[str, Any]:
    """An answer to a prompt of so many tokens, "ok", without a report."""
    if path == "/v1/responses":
        text = {"type": "output_text", "text": "ok", "annotations": []}
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "demo",
            "status": "completed",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [{**message, "content": [text]}],
            "usage": {
                "input_tokens": num_tokens,
                "input_tokens_details": {"cached_tokens": 3},
                "output_tokens": 1,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": num_tokens + 1,
            },
        }
    if path == "/v1/messages":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "demo",
            "content": [{"type": "text", "text": "ok"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": num_tokens - 3,
                "cache_read_input_tokens": 3,
                "output_tokens": 1,
            },
        }
    return {
        "id": "cmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "demo",
        "choices": [
            {
                "index": 0,
                "text": "ok",
                "message": {"role": "assistant", "content": "ok"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": num_tokens, "completion_tokens": 1},
    }
