"""What an answer of the model says, as far as a conversation goes on from there.

Owns the shapes of complete and streamed answers of chat, responses and messages. Pure functions.
None stands for what no next turn can be foreseen from: several answers (nobody knows which one the
client keeps), calls of tools (their results belong to the same turn, which goes on behind its
memory), reasoning (some clients send it back), and what broke off.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_FINISHED = ("stop", "length")
_STOPPED = ("end_turn", "max_tokens", "stop_sequence")
_COMPLETED = ("completed", "incomplete")


def final_text(answer: Mapping[str, Any]) -> str | None:
    """The text of a complete answer."""
    if answer.get("object") == "response":
        return _of_response(answer)
    if answer.get("type") == "message":
        is_final = answer.get("stop_reason") in _STOPPED
        return _joined(answer.get("content"), "text") if is_final else None
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return None
    message, reason = choices[0].get("message") or {}, choices[0].get("finish_reason")
    said = message.get("content")
    if message.get("tool_calls") or reason not in _FINISHED or not isinstance(said, str):
        return None
    return said


def streamed_text(stream: bytes) -> str | None:
    """The text of a streamed answer, given all of its bytes."""
    said, is_final = "", False
    for event in _events(stream):
        match event.get("type"):
            case "response.completed" | "response.incomplete":
                return _of_response(event.get("response") or {})
            case "content_block_start" if event["content_block"].get("type") != "text":
                return None
            case "content_block_delta":
                said += event["delta"].get("text") or ""
            case "message_delta":
                is_final = event["delta"].get("stop_reason") in _STOPPED
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("index") or delta.get("tool_calls"):
                return None
            said += delta.get("content") or ""
            is_final = is_final or choice.get("finish_reason") in _FINISHED
    return said if is_final else None


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            try:
                yield json.loads(line[6:])
            except ValueError:  # cut off
                return


def _of_response(answer: Mapping[str, Any]) -> str | None:
    output = answer.get("output")
    if answer.get("status") not in _COMPLETED or not isinstance(output, list) or len(output) != 1:
        return None
    return _joined(output[0].get("content"), "output_text")


def _joined(parts: Any, kind: str) -> str | None:
    if not isinstance(parts, list) or not all(part.get("type") == kind for part in parts):
        return None
    return "".join(part["text"] for part in parts)
