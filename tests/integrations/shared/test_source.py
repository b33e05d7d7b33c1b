"""Whose memory a call uses."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferscale import AsyncMemory, InvalidArgumentError, Memory
from inferscale_shared.clients import Clients
from inferscale_shared.source import check_source, memory_of


@pytest.mark.parametrize(
    ("source", "context", "named"),
    [
        ({"user_id": "a", "k": 3}, {"user_id": "b"}, {"user_id": "a", "k": 3}),
        ("mh_1", None, {"handle": "mh_1"}),
        (lambda context: {"user_id": context}, "b", {"user_id": "b"}),
        (None, {"user_id": "b", "k": 9, "run_id": None}, {"user_id": "b"}),
        (None, SimpleNamespace(agent_id="x", run_id="y"), {"agent_id": "x", "run_id": "y"}),
        (None, SimpleNamespace(user_id="b", app_id="z"), {"user_id": "b", "app_id": "z"}),
    ],
)
def test_what_was_said_comes_before_the_context(source: Any, context: Any, named: Any) -> None:
    check_source(source)
    assert memory_of(source, context) == named


@pytest.mark.parametrize("context", [None, {}, {"user_id": None}, {"name": "alice"}, "alice"])
def test_nobody_is_an_error(context: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="whose memory"):
        memory_of(None, context)


@pytest.mark.parametrize("context", [{"user_id": 3}, {"user_id": ""}])
def test_an_id_is_a_string_with_something_in_it(context: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        memory_of(None, context)


@pytest.mark.parametrize("source", ["alice", {"k": 3}, {"user_id": "a", "handle": "mh_1"}, 3])
def test_what_cannot_name_a_memory_is_refused_beforehand(source: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        check_source(source)


async def test_a_client_of_either_kind_will_do() -> None:
    with Memory() as blocking:
        assert Clients.of(blocking).blocking is blocking
    async with AsyncMemory() as awaiting:
        assert Clients.of(awaiting).awaiting is awaiting
    assert isinstance(Clients.of(None).blocking, Memory)
    with pytest.raises(InvalidArgumentError, match="memory is a str"):
        Clients.of("http://127.0.0.1:8420")  # type: ignore[arg-type]
