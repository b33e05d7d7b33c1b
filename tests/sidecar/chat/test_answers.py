"""What the next turn of a conversation will hold of an answer, in every shape of answer."""

import json
from typing import Any

import pytest

from inferscale_sidecar.service.chat_answers import final_text, streamed_text


def chat(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"} | choice]}


def response(*output: dict[str, Any], **changes: Any) -> dict[str, Any]:
    said = [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}]
    return {"object": "response", "status": "completed", "output": [*output, *said]} | changes


def message(*content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    said = [*content, {"type": "text", "text": "yes"}]
    return {"type": "message", "stop_reason": "end_turn", "content": said} | changes


CALL = {"type": "tool_use", "name": "f"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (chat(), "yes"),
        (chat(finish_reason="length"), "yes"),
        (chat(finish_reason="tool_calls"), None),
        (chat(message={"content": "", "tool_calls": [{}]}), None),
        (chat(message={"content": None}), None),
        ({"choices": chat()["choices"] * 2}, None),
        ({"error": "no"}, None),
        (response(), "yes"),
        (response(status="failed"), None),
        (response({"type": "reasoning"}), None),
        (response(output=[{"type": "function_call"}]), None),
        (message(), "yes"),
        (message({"type": "text", "text": "oh "}), "oh yes"),
        (message(CALL), None),
        (message(CALL, stop_reason="tool_use"), None),
    ],
)
def test_what_an_answer_says(answer: dict[str, Any], said: str | None) -> None:
    assert final_text(answer) == said


def sent(*events: dict[str, Any]) -> bytes:
    lines = (f"event: x\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(lines).encode() + b"data: [DONE]\n\n"


def piece(text: str, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}} | choice]}


END = piece("es", finish_reason="stop")
START = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
DELTAS = [
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    for text in ("y", "es")
]
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (sent(piece("y"), END, {"choices": [], "usage": {}}), "yes"),
        (sent(piece("y")), None),
        (sent(piece("y"), END)[:-40], None),
        (sent(piece("y"), piece("no", index=1), END), None),
        (sent({"choices": [{"delta": {"tool_calls": [{}]}}]}, END), None),
        (sent({"type": "response.output_text.delta", "delta": "y"}), None),
        (sent({"type": "response.completed", "response": response()}), "yes"),
        (sent(START, *DELTAS, STOP), "yes"),
        (sent(START, *DELTAS), None),
        (sent({"type": "content_block_start", "content_block": CALL}, *DELTAS, STOP), None),
        (b"", None),
    ],
)
def test_what_a_stream_says(stream: bytes, said: str | None) -> None:
    assert streamed_text(stream) == said
