"""Which texts a request holds, and which of them cannot be stored."""

import hashlib
import json
from typing import Any

import pytest

from inferscale.protocol.memory import MAX_TEXT_BYTES, Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.message import Note, check_metadata, name_request, read_notes


def test_a_string_is_a_users_message() -> None:
    assert read_notes("I like tea") == [Note("I like tea", "user")]


def test_a_request_is_named_as_before_there_were_apps() -> None:
    """So that a retry after an upgrade is known; in another app it is another request."""

    def digest(scope: Scope) -> str:
        named = name_request("key", scope, [Note("tea", "user")], None)
        assert named is not None
        return named.request_hash

    before = json.dumps([["alice", None, None], [["tea", "user", None]], None])
    assert digest(Scope("alice")) == hashlib.sha256(before.encode()).hexdigest()
    assert digest(Scope("alice", app_id="mail")) != digest(Scope("alice"))


def test_text_is_kept_as_it_is() -> None:
    text = "  two\n\nlines\t<|im_end|> 日本 🎉 "
    assert read_notes(text)[0].text == text


def test_system_messages_and_messages_without_text_are_skipped() -> None:
    messages = [
        Message(role="system", content="you are a helpful assistant"),
        Message(role="user", content=None),
        Message(role="user", content=" \n"),
        Message(role="assistant", content="hello", name="Bot"),
        Message(role="user", content=[{"type": "image_url", "image_url": {"url": "x"}}]),
    ]
    assert read_notes(messages) == [Note("hello", "assistant", "Bot")]
    assert read_notes([]) == []
    assert read_notes("") == []


def test_text_parts_are_joined() -> None:
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "a picture of"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "my cat"},
    ]
    assert read_notes(Message(role="user", content=content)) == [
        Note("a picture of\nmy cat", "user")
    ]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Message(content="a\x00b"), "NUL"),
        (Message(content="x" * (MAX_TEXT_BYTES + 1)), "the limit is 65536"),
        (Message(content=[{"type": "text", "text": 7}]), "no string"),
        (Message(content=[{"type": "text"}]), "no string"),
        (Message(role="r" * 100, content="x"), "role"),
        (Message(role="a\nb", content="x"), "role"),
        (Message(name="n" * 1000, content="x"), "name"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_place_and_without_the_text(
    message: Message, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as raised:
        read_notes([Message(content="fine"), message])
    assert "messages[1]" in raised.value.message
    assert len(raised.value.message) < 300


def test_metadata_is_any_json() -> None:
    metadata = {"a": [1, {"b": None}], "c": "日本", "user_id": "data, not identity"}
    assert check_metadata(metadata) == metadata
    assert check_metadata({}) is None


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"x": 1}
    for _ in range(depth):
        value = {"x": [value]}
    return value


@pytest.mark.parametrize(
    "metadata",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": "\ud800"},
        {"\ud800": 1},
        {"x": "a\x00b"},
        {"a\x00": 1},
        {"x": "y" * 20_000},
        _nested(20),
        _nested(5000),
    ],
)
def test_metadata_that_cannot_be_given_back_is_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="metadata"):
        check_metadata(metadata)


def test_a_backslash_u_is_not_a_nul() -> None:
    assert check_metadata({"x": "\\u0000"}) == {"x": "\\u0000"}
