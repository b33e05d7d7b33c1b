"""What a turn leaves in memory, against the real application."""

import logging
from typing import Any

import pytest

from inferscale import APIError, InvalidArgumentError, Memory
from inferscale_shared.clients import Clients
from inferscale_shared.turn import TurnWriter, ids_of


@pytest.fixture
def clients(memory: Memory) -> Clients:
    return Clients(memory, None)


def texts(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


@pytest.mark.parametrize(
    ("remember", "kept"),
    [("user", ["I keep bees"]), ("turn", ["I keep bees", "How nice"]), ("nothing", [])],
)
async def test_what_is_kept(clients, memory, user, remember, kept) -> None:
    writer = TurnWriter(clients, {"user_id": user, "k": 3}, remember=remember)
    await writer.awrite(["I keep bees", " "], "How nice")
    assert texts(memory, user) == sorted(kept)


async def test_a_retry_adds_nothing(clients, memory, user) -> None:
    writer = TurnWriter(clients, {"user_id": user}, metadata={"from": "a test"})
    writer.write(["I keep bees"], turn_id="one")
    memory.delete_all(user_id=user)
    writer.write(["I keep bees"], turn_id="one")
    await writer.awrite(["I keep bees"], turn_id="one")
    assert texts(memory, user) == []
    writer.write(["I keep bees"], turn_id="two")
    assert texts(memory, user) == ["I keep bees"]


def test_a_turn_that_cannot_be_written_fails_only_if_asked_to(sidecar, user, caplog) -> None:
    with Memory(f"{sidecar.url}/nowhere", max_retries=0) as memory:
        clients = Clients(memory, None)
        with caplog.at_level(logging.ERROR):
            TurnWriter(clients, {"user_id": user}).write(["I keep bees"])
        assert "answered, but not remembered" in caplog.text
        with pytest.raises(APIError):
            TurnWriter(clients, {"user_id": user}, raise_write_errors=True).write(["I keep bees"])


def test_the_same_words_said_again_later_are_a_turn_of_their_own(clients, memory, user) -> None:
    writer = TurnWriter(clients, {"user_id": user})
    writer.write(["I keep bees"])
    memory.delete_all(user_id=user)
    writer.write(["I keep bees"])
    assert texts(memory, user) == ["I keep bees"]


@pytest.mark.parametrize("memory", [{}, {"handle": "mh_1"}, {"user_id": None}, {"user_id": 3}])
def test_whose_memory_must_be_said(memory: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="user_id"):
        ids_of(memory)


def test_remember_is_one_of_three(clients, user) -> None:
    with pytest.raises(InvalidArgumentError, match="'all'"):
        TurnWriter(clients, {"user_id": user}, remember="all")  # type: ignore[arg-type]
