"""Mem0's expiration dates: the end of a day in UTC, shown and hidden as Mem0 does."""

import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from inferscale import InvalidArgumentError, InvalidRequestError
from inferscale.compat.mem0 import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient
from inferscale.compat.mem0._expiry import expiration_date, expires_at


@pytest.fixture
def memory(connect: Any, http_client: Any, api_key: str) -> Any:
    config = {"inferscale": {"base_url": "http://127.0.0.1:8420", "api_key": api_key}}
    return connect(Memory, AsyncMemory, config=config, http_client=http_client)


@pytest.fixture
def client(connect: Any, http_client: Any, api_key: str) -> Any:
    options = {"api_key": api_key, "host": "http://127.0.0.1:8420", "client": http_client}
    return connect(MemoryClient, AsyncMemoryClient, **options)


@pytest.mark.parametrize("day", ["2031-01-31", date(2031, 1, 31)])
def test_a_date_is_the_end_of_that_day(day: Any) -> None:
    end = expires_at(day)
    assert end == datetime(2031, 2, 1, tzinfo=UTC)
    assert expiration_date(end) == "2031-01-31"


def test_a_time_with_an_offset_is_that_time() -> None:
    end = expires_at("2031-01-31T12:00:00+02:00")
    assert end == datetime(2031, 1, 31, 10, tzinfo=UTC)
    assert expiration_date(end) == "2031-01-31"
    assert expires_at(end) == end
    assert expires_at(None) is None


@pytest.mark.parametrize("day", ["soon", "31.01.2031", 20310131, True, "2031-01-31T12:00:00", ""])
def test_what_is_no_date_is_refused(day: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="expiration_date is"):
        expires_at(day)


async def test_memory_keeps_shows_changes_and_takes_back_the_date(memory: Any) -> None:
    added = await memory.add("tea", user_id="alice", expiration_date="2031-01-31", infer=False)
    memory_id = added["results"][0]["id"]
    shown = await memory.get(memory_id)
    assert shown["expiration_date"] == "2031-01-31"
    await memory.update(memory_id, text="coffee")
    assert (await memory.get(memory_id))["expiration_date"] == "2031-01-31"
    await memory.update(memory_id, expiration_date=date(2032, 1, 1))
    found = await memory.search("coffee", filters={"user_id": "alice"})
    assert found["results"][0]["expiration_date"] == "2032-01-01"
    await memory.update(memory_id, expiration_date=None)
    assert "expiration_date" not in await memory.get(memory_id)


async def test_a_day_that_is_over_is_an_error_and_nothing_is_stored(memory: Any) -> None:
    with pytest.raises(InvalidRequestError, match="not in the future"):
        await memory.add("x", user_id="alice", expiration_date="2020-01-01", infer=False)
    assert (await memory.get_all(user_id="alice"))["results"] == []


async def test_show_expired_shows_what_is_not_swept_yet(memory: Any) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.4)
    await memory.add("tea", user_id="alice", expiration_date=soon, infer=False)
    await memory.add("milk", user_id="alice", infer=False)
    time.sleep(max(0.0, (soon - datetime.now(UTC)).total_seconds()) + 0.01)
    scope = {"filters": {"user_id": "alice"}}
    assert [m["memory"] for m in (await memory.get_all(**scope))["results"]] == ["milk"]
    everything = await memory.get_all(**scope, show_expired=True)
    assert [m["memory"] for m in everything["results"]] == ["milk", "tea"]
    assert [m["memory"] for m in (await memory.search("tea", **scope))["results"]] == ["milk"]
    found = await memory.search("tea", **scope, show_expired=True)
    assert [m["memory"] for m in found["results"]] == ["tea", "milk"]
    history = await memory.history(everything["results"][1]["id"])
    assert [(h["event"], h["is_deleted"]) for h in history] == [("ADD", False), ("DELETE", True)]


async def test_the_hosted_client_has_dates_too(client: Any) -> None:
    added = await client.add("tea", user_id="alice", expiration_date="2031-01-31", infer=False)
    memory_id = added["results"][0]["id"]
    assert (await client.get(memory_id))["expiration_date"] == "2031-01-31"
    changed = await client.update(memory_id, expiration_date="2031-02-01")
    assert changed["expiration_date"] == "2031-02-01"
    again = {"memory_id": memory_id, "text": "coffee", "expiration_date": "2031-02-02"}
    await client.batch_update([again])
    page = await client.get_all(user_id="alice", show_expired=True)
    assert [m["expiration_date"] for m in page["results"]] == ["2031-02-02"]
