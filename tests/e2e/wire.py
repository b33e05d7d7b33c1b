"""Requests as raw HTTP: what an SDK would refuse to send is sent all the same."""

import json
from typing import Any

import httpx

MODEL = "smollm2-135m-instruct"
HELLO = [{"role": "user", "content": "Hello."}]
SURROGATE = "half a face: \ud83d"
CHAT, ADD, RECALL = "/v1/chat/completions", "/v1/memories", "/v1/recall"
SEARCH = "/v1/memories/search"


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": HELLO, "max_tokens": 2, **fields}


def add(messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": messages, "user_id": "bad", "infer": False, **fields}


def recall(**fields: Any) -> dict[str, Any]:
    return {"query": "what", "user_id": "bad", **fields}


def post(http: httpx.Client, path: str, body: Any) -> httpx.Response:
    # json= of httpx refuses lone surrogates before sending; escaped ASCII is what clients send.
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(path, content=content, headers={"content-type": "application/json"})


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error object, if it is one that an OpenAI client understands."""
    error: dict[str, Any] = response.json()["error"]
    assert {"message", "type", "param", "code"} <= set(error)
    assert error["message"] and error["type"]
    assert "Traceback" not in response.text and ".py" not in response.text
    return error
