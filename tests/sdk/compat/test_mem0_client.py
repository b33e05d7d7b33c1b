"""Mem0's hosted `MemoryClient` over the real service: options in every form, pages, refusals."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from inferscale import InvalidArgumentError
from inferscale.compat.mem0 import AsyncMemoryClient, DialectError, MemoryClient
from inferscale.compat.mem0.exceptions import MemoryNotFoundError

from .conftest import BASE_URL, Awaited


class Options(BaseModel):
    """As Mem0's typed options: what is not set asks for nothing."""

    filters: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    top_k: int | None = None
    page: int | None = None
    page_size: int | None = None
    text: str | None = None
    user_id: str | None = None


@pytest.fixture
def client(connect: Callable[..., Awaited], http_client: Any, api_key: str) -> Awaited:
    return connect(
        MemoryClient, AsyncMemoryClient, api_key=api_key, host=BASE_URL, client=http_client
    )


def texts(result: dict[str, Any]) -> list[str]:
    return [each["memory"] for each in result["results"]]


MESSAGES = [{"role": "user", "content": "I like tea"}, {"role": "assistant", "content": "Noted"}]


async def test_add_in_every_spelling(client):
    for user, arguments in enumerate(
        (
            {"user_id": "u0"},
            {"user_id": "u1", "version": "v2", "output_format": "v1.1", "async_mode": True},
            {"user_id": "u2", "metadata": {"a": 1}, "infer": False, "enable_graph": False},
            {"filters": {"user_id": "u3"}},
            {"options": Options(filters={"user_id": "u4"}, metadata={"a": 1})},
            {"options": {"user_id": "u5"}},
        )
    ):
        result = await client.add(MESSAGES, **arguments)
        assert texts(result) == ["I like tea", "Noted"]
        assert json.loads(json.dumps(result)) == result
        found = await client.get_all(filters={"user_id": f"u{user}"})
        assert found["count"] == 2


async def test_search_in_every_spelling(client):
    await client.add("I like tea", user_id="alice", metadata={"topic": "drinks"})
    await client.add("I live in Oslo", user_id="alice")
    for arguments in (
        {"user_id": "alice"},
        {"user_id": "alice", "version": "v2", "limit": 5, "threshold": 0.0},
        {"filters": {"user_id": "alice"}, "top_k": 5},
        {"filters": {"AND": [{"user_id": "alice"}]}},
        {"options": Options(filters={"user_id": "alice"}, top_k=5)},
    ):
        assert set(texts(await client.search("I like", **arguments))) == {
            "I like tea",
            "I live in Oslo",
        }
    only = await client.search("tea", user_id="alice", metadata={"topic": "drinks"})
    assert texts(only) == ["I like tea"]
    fields = await client.search("tea", user_id="alice", fields=["id", "memory"])
    assert [set(each) for each in fields["results"]] == [{"id", "memory"}] * 2


async def test_without_a_number_search_gives_ten(client):
    await client.add([f"fact {n}" for n in range(15)], user_id="alice")
    assert len((await client.search("fact", user_id="alice"))["results"]) == 10


async def test_pages_are_numbered_from_one(client):
    everything = [f"fact {n}" for n in range(5)][::-1]
    await client.add(everything[::-1], user_id="alice")
    scope = {"filters": {"user_id": "alice"}}
    whole = await client.get_all(**scope)
    assert texts(whole) == everything
    assert (whole["count"], whole["next"], whole["previous"]) == (5, None, None)
    first = await client.get_all(**scope, page=1, page_size=2)
    assert (texts(first), first["count"], first["previous"]) == (everything[:2], 5, None)
    assert first["next"]
    middle = await client.get_all(Options(**scope, page=2, page_size=2))
    assert texts(middle) == everything[2:4] and middle["next"] and middle["previous"]
    last = await client.get_all(**scope, page=3, page_size=2)
    assert (texts(last), last["next"]) == (everything[4:], None)
    beyond = await client.get_all(**scope, page=4, page_size=2)
    assert (texts(beyond), beyond["next"], beyond["count"]) == ([], None, 5)
    dated = {"AND": [{"user_id": "alice"}, {"created_at": {"gte": "2020-01-01"}}]}
    filtered = await client.get_all(version="v2", filters=dated, page=2, page_size=2)
    assert (len(filtered["results"]), filtered["count"]) == (2, 5)
    assert filtered["next"] and filtered["previous"]
    with pytest.raises(InvalidArgumentError, match="page is 0"):
        await client.get_all(**scope, page=0)


async def test_update_in_every_spelling_gives_the_memory(client):
    memory_id = (await client.add("I like tea", user_id="alice"))["results"][0]["id"]
    for number, (args, kwargs) in enumerate(
        (
            ((), {"text": "text 0"}),
            ((), {"data": "text 1"}),
            (("text 2",), {}),
            (("text 3", {"b": 2}), {}),
            ((Options(text="text 4"),), {}),
            ((), {"text": "text 5", "metadata": {"a": 1}}),
        )
    ):
        answer = await client.update(memory_id, *args, **kwargs)
        assert (answer["text"], answer["memory"]) == (f"text {number}",) * 2
    assert (await client.get(memory_id))["metadata"] == {"a": 1, "b": 2}
    with pytest.raises(ValueError):
        await client.update(memory_id)


async def test_batches_and_deletions(client):
    results = (await client.add([f"fact {n}" for n in range(4)], user_id="alice"))["results"]
    ids = [each["id"] for each in results]
    changes = [{"memory_id": ids[0], "text": "new"}, {"memory_id": ids[1], "metadata": {"a": 1}}]
    answer = await client.batch_update(changes)
    assert answer == {"message": "Successfully updated 2 memories"}
    assert (await client.get(ids[0]))["memory"] == "new"
    answer = await client.batch_delete([{"memory_id": ids[0]}, {"memory_id": ids[1]}])
    assert answer == {"message": "Successfully deleted 2 memories"}
    assert await client.delete(ids[2]) == {"message": "Memory deleted successfully!"}
    assert [row["event"] for row in await client.history(ids[2])] == ["ADD", "DELETE"]
    await client.add("Bob's", user_id="bob")
    assert await client.delete_all(user_id="alice") == {"message": "Memories deleted successfully!"}
    assert (await client.get_all(user_id="alice"))["count"] == 0
    assert (await client.get_all(user_id="bob"))["count"] == 1
    answer = await client.delete_users(user_id="bob")
    assert answer == {"message": "Entity deleted successfully."}
    assert (await client.get_all(user_id="bob"))["count"] == 0


async def test_an_app_is_an_entity(client):
    for app in ("mail", "shop"):
        await client.add(f"of {app}", user_id="alice", app_id=app)
    await client.add("of nobody", app_id="mail")
    for arguments in (
        {"app_id": "mail", "user_id": "alice"},
        {"filters": {"AND": [{"user_id": "alice"}, {"app_id": "mail"}]}},
        {"options": {"filters": {"app_id": "mail", "user_id": "alice"}}},
    ):
        assert texts(await client.search("of", **arguments)) == ["of mail"]
        (found,) = (await client.get_all(**arguments))["results"]
        assert (found["user_id"], found["app_id"]) == ("alice", "mail")
    assert (await client.get_all(user_id="alice"))["count"] == 2
    entities = await client.users()
    assert (entities["count"], entities["next"], entities["previous"]) == (3, None, None)
    named = [(each["type"], each["name"], each["total_memories"]) for each in entities["results"]]
    assert named == [("user", "alice", 2), ("app", "mail", 2), ("app", "shop", 1)]
    assert json.loads(json.dumps(entities)) == entities
    assert await client.delete_users(app_id="mail") == {"message": "Entity deleted successfully."}
    assert texts(await client.get_all(user_id="alice")) == ["of shop"]
    assert await client.delete_all(user_id="alice", app_id="shop")
    assert (await client.get_all(user_id="alice"))["count"] == 0


async def test_an_unknown_id_raises_as_on_the_platform(client):
    for attempt in (client.get("nope"), client.delete("nope"), client.update("nope", text="x")):
        with pytest.raises(MemoryNotFoundError):
            await attempt


NOT_HONOURED = [
    lambda c: c.add("x", user_id="alice", custom_categories=[{"a": "b"}]),
    lambda c: c.add("x", user_id="alice", enable_graph=True),
    lambda c: c.add("x", user_id="alice", immutable=True),
    lambda c: c.add("x", user_id="alice", output_format="v1.0"),
    lambda c: c.search("x", user_id="alice", categories=["food"]),
    lambda c: c.search("x", filters={"user_id": "alice", "categories": {"contains": "food"}}),
    lambda c: c.get_all(user_id="alice", start_date="2026-01-01"),
    lambda c: c.update("m1", text="x", timestamp=1),
    lambda c: c.delete("m1", delete_linked=True),
    lambda c: c.delete_users(),
    lambda c: c.delete_users(user_id="alice", app_id="app"),
    lambda c: c.delete_users(user_id="alice", agent_id="x"),
    lambda c: c.reset(),
    lambda c: c.feedback("m1", feedback="POSITIVE"),
    lambda c: c.create_memory_export("{}", user_id="alice"),
    lambda c: c.create_webhook("u", "n", "p", []),
    lambda c: c.get_profile("alice"),
    lambda c: c.chat(),
]


async def test_what_cannot_be_honoured_is_refused_with_a_sentence(client):
    for call in NOT_HONOURED:
        with pytest.raises(DialectError, match=r"cannot be honoured: .{10}"):
            await call(client)


async def test_no_id_is_a_wildcard_and_none_is_not_everybody(client):
    await client.add("x", user_id="alice")
    for call in (
        client.delete_all(user_id="*"),
        client.delete_all(),
        client.delete_users(user_id="*"),
        client.get_all(),
        client.search("x", filters={"user_id": "*"}),
    ):
        with pytest.raises(ValueError):
            await call
    assert (await client.get_all(user_id="alice"))["count"] == 1


def test_a_key_of_mem0s_is_never_sent(monkeypatch):
    monkeypatch.setenv("MEM0_API_KEY", "m0-secret")
    assert "m0-secret" not in str(vars(MemoryClient().inferscale._transport.config))


@pytest.mark.parametrize(
    "arguments", [{"host": "https://api.mem0.ai"}, {"org_id": "o"}, {"project_id": "p"}]
)
def test_what_only_the_platform_has_is_refused_at_once(arguments):
    with pytest.raises(DialectError, match="cannot be honoured"):
        MemoryClient(api_key="k", **arguments)
