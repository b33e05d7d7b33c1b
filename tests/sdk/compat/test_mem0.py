"""Mem0's `Memory` over the real service: both spellings, the shapes of 2.x, errors, refusals."""

import hashlib
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import inferscale
from inferscale import InferScaleError, InvalidArgumentError
from inferscale.compat.mem0 import AsyncMemory, DialectError, Memory
from inferscale.compat.mem0.exceptions import MemoryNotFoundError

from .conftest import BASE_URL, Awaited, BlockingTransport, Sidecar
from .shapes import RECORDING, session, shape

UTC = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$")


@pytest.fixture
def memory(connect: Callable[..., Awaited], http_client: Any, api_key: str) -> Awaited:
    config = {"version": "v1.1", "inferscale": {"base_url": BASE_URL, "api_key": api_key}}
    return connect(Memory, AsyncMemory, config=config, http_client=http_client)


@pytest.fixture
async def alice(memory: Awaited) -> dict[str, str]:
    """Three memories of Alice's, one of Bob's: text → id."""
    ids = {}
    for text, metadata, scope in (
        ("Alice likes tea", {"topic": "drinks", "rank": 1}, {"user_id": "alice"}),
        ("Alice lives in Oslo", {"topic": "home", "rank": 2}, {"user_id": "alice"}),
        ("Alice plans a trip", None, {"user_id": "alice", "run_id": "r1"}),
        ("Bob likes tea", None, {"user_id": "bob"}),
    ):
        result = await memory.add(text, metadata=metadata, **scope)
        ids[text] = result["results"][0]["id"]
    return ids


def texts(result: dict[str, Any]) -> list[str]:
    return [each["memory"] for each in result["results"]]


@pytest.mark.parametrize(
    "messages",
    [
        "I like tea",
        {"role": "user", "content": "I like tea"},
        [{"role": "user", "content": "I like tea"}],
        [{"role": "user", "content": [{"type": "text", "text": "I like tea"}]}],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "I like tea"}],
    ],
)
async def test_add_takes_what_mem0_takes(memory, messages):
    result = await memory.add(messages, user_id="alice", metadata={"a": 1}, infer=False)
    (entry,) = result["results"]
    assert set(entry) == {"id", "memory", "event", "actor_id", "role"}
    assert (entry["memory"], entry["event"], entry["role"]) == ("I like tea", "ADD", "user")
    assert json.loads(json.dumps(result)) == result


async def test_adding_the_same_again_is_event_none_with_the_same_id(memory):
    first = await memory.add("I like tea", user_id="alice")
    again = await memory.add("I like tea", user_id="alice")
    assert again["results"][0]["event"] == "NONE"
    assert again["results"][0]["id"] == first["results"][0]["id"]


@pytest.mark.parametrize("empty", [[], "", "  "])
async def test_nothing_to_remember_remembers_nothing(memory, empty):
    assert await memory.add(empty, user_id="alice") == {"results": []}


async def test_the_shape_of_a_memory_is_mem0s(memory):
    added = await memory.add(
        [{"role": "user", "content": "I like tea", "name": "Al"}],
        user_id="alice",
        agent_id="waiter",
        run_id="r1",
        metadata={"topic": "drinks"},
    )
    got = await memory.get(added["results"][0]["id"])
    assert list(got) == [
        *("id", "memory", "hash", "metadata", "score", "created_at", "updated_at"),
        *("user_id", "agent_id", "run_id", "actor_id", "role"),
    ]
    assert type(got) is dict and got["score"] is None
    assert got["hash"] == hashlib.md5(b"I like tea").hexdigest()
    assert UTC.match(got["created_at"]) and UTC.match(got["updated_at"])
    (listed,) = (await memory.get_all(user_id="alice"))["results"]
    assert listed == {name: value for name, value in got.items() if name != "score"}
    (hit,) = (await memory.search("tea", user_id="alice"))["results"]
    assert isinstance(hit.pop("score"), float)
    assert hit == listed


@pytest.mark.skipif(
    "explain" not in inspect.signature(inferscale.Memory.search).parameters,
    reason="this version of the SDK does not explain scores",
)
async def test_scores_are_explained_in_mem0s_words(memory, alice):
    result = await memory.search("likes tea", user_id="alice", explain=True, threshold=0.1)
    details = result["results"][0]["score_details"]
    assert list(details) == [
        *("semantic_score", "bm25_score", "entity_boost", "raw_score"),
        *("max_possible_score", "final_score", "threshold"),
    ]
    assert details["final_score"] == result["results"][0]["score"] and json.dumps(result)
    assert details["threshold"] == 0.1


def test_a_session_gives_the_shapes_recorded_from_mem0(sidecar: Sidecar, api_key: str) -> None:
    config = {"inferscale": {"base_url": BASE_URL, "api_key": api_key}}
    client = httpx.Client(transport=BlockingTransport(sidecar))
    answers = session(Memory(config, http_client=client))
    recorded = json.loads(RECORDING.read_text())
    # What was deleted is forgotten: unlike Mem0's, our history keeps no text of it.
    recorded["history deleted"][0] |= dict.fromkeys(("old_memory", "actor_id", "role"), "NoneType")
    for name, theirs in recorded.items():
        # As text: the order of keys counts too.
        assert json.dumps(shape(answers[name])) == json.dumps(theirs), name


async def test_metadata_that_is_empty_is_null_and_ids_not_given_are_absent(memory):
    await memory.add("I like tea", user_id="alice")
    (item,) = (await memory.get_all(user_id="alice"))["results"]
    assert item["metadata"] is None
    assert not {"agent_id", "run_id", "actor_id"} & set(item)


LISTINGS = [
    ({"user_id": "alice"}, 3),
    ({"user_id": "alice", "limit": 2}, 2),
    ({"user_id": "alice", "limit": 100}, 3),
    ({"user_id": "alice", "limit": 0}, 0),
    ({"user_id": "alice", "run_id": "r1"}, 1),
    ({"user_id": " alice "}, 3),
    ({"filters": {"user_id": "alice"}}, 3),
    ({"filters": {"user_id": "alice"}, "top_k": 1}, 1),
    ({"filters": {"user_id": "alice", "run_id": "r1"}, "show_expired": False}, 1),
    ({"filters": {"AND": [{"user_id": "alice"}, {"run_id": "r1"}]}}, 1),
    ({"user_id": "carol"}, 0),
    ({"user_id": "alice", "filters": {"topic": "home"}}, 1),
    ({"filters": {"user_id": "alice", "rank": {"gte": 1}}}, 2),
    ({"filters": {"user_id": "alice", "rank": {"gte": 1}}, "top_k": 1}, 1),
    ({"filters": {"AND": [{"user_id": "alice"}, {"created_at": {"lt": "2020-01-01"}}]}}, 0),
]


async def test_get_all_in_every_spelling(memory, alice):
    for arguments, expected in LISTINGS:
        result = await memory.get_all(**arguments)
        assert len(result["results"]) == expected, arguments
        assert "Bob likes tea" not in texts(result)


async def test_get_all_gives_everything_beyond_a_page(memory):
    everything = [f"fact {n}" for n in range(1_000)]
    await memory.add(everything, user_id="alice", metadata={"a": 1})
    assert texts(await memory.get_all(user_id="alice")) == everything[::-1]
    assert texts(await memory.get_all(user_id="alice", limit=610)) == everything[:389:-1]
    ones = {"filters": {"user_id": "alice", "a": 1}}
    assert texts(await memory.get_all(**ones)) == everything[::-1]
    assert texts(await memory.get_all(**ones, limit=3)) == everything[:-4:-1]
    await memory.update((await memory.get_all(user_id="alice", limit=1))["results"][0]["id"], "new")
    await memory.add("newest", user_id="alice", metadata={"b": 1})
    found = await memory.get_all(filters={"user_id": "alice", "OR": [{"b": 1}, {"b": 2}]})
    assert texts(found) == ["newest"]


SEARCHES = [
    ({"user_id": "alice"}, {"Alice likes tea", "Alice lives in Oslo", "Alice plans a trip"}),
    ({"user_id": "alice", "limit": 1}, {"Alice likes tea"}),
    ({"user_id": "alice", "filters": {"topic": "home"}}, {"Alice lives in Oslo"}),
    ({"user_id": "alice", "metadata_filters": {"rank": {"gt": 1}}}, {"Alice lives in Oslo"}),
    ({"filters": {"user_id": "alice"}, "top_k": 1, "threshold": 0.1}, {"Alice likes tea"}),
    ({"filters": {"user_id": "alice"}, "rerank": False, "top_k": 0}, set()),
    (
        {"filters": {"user_id": "alice", "topic": "*"}},
        {"Alice likes tea", "Alice lives in Oslo"},
    ),
    ({"filters": {"user_id": "alice", "NOT": [{"topic": "*"}]}}, {"Alice plans a trip"}),
    (
        {"filters": {"AND": [{"user_id": "alice"}, {"topic": {"in": ["drinks", "x"]}}]}},
        {"Alice likes tea"},
    ),
    (
        {"filters": {"user_id": "alice", "OR": [{"rank": 1}, {"topic": "home"}]}},
        {"Alice likes tea", "Alice lives in Oslo"},
    ),
    ({"user_id": "alice", "threshold": 1.0}, set()),
]


async def test_search_in_every_spelling(memory, alice):
    for arguments, expected in SEARCHES:
        assert set(texts(await memory.search("likes tea", **arguments))) == expected, arguments


async def test_search_is_best_first(memory, alice):
    result = await memory.search(" likes tea ", user_id="alice")
    scores = [each["score"] for each in result["results"]]
    assert scores == sorted(scores, reverse=True)
    assert texts(result)[0] == "Alice likes tea"


async def test_how_many_come_unasked_depends_on_the_spelling(memory):
    await memory.add([f"fact {n}" for n in range(120)], user_id="alice")
    assert len((await memory.search("fact", user_id="alice"))["results"]) == 100
    assert len((await memory.search("fact", filters={"user_id": "alice"}))["results"]) == 20


@pytest.mark.parametrize(
    "arguments",
    [
        ("Tea, green",),
        ("Tea, green", {"topic": "x"}),
        {"data": "Tea, green"},
        {"text": "Tea, green"},
    ],
)
async def test_update_in_every_spelling(memory, alice, arguments):
    memory_id = alice["Alice likes tea"]
    if isinstance(arguments, dict):
        answer = await memory.update(memory_id, **arguments)
    else:
        answer = await memory.update(memory_id, *arguments)
    assert answer == {"message": "Memory updated successfully!"}
    assert (await memory.get(memory_id))["memory"] == "Tea, green"


async def test_metadata_is_merged(memory, alice):
    memory_id = alice["Alice likes tea"]
    await memory.update(memory_id, metadata={"rank": 9, "new": True, "user_id": "bob"})
    got = await memory.get(memory_id)
    assert got["metadata"] == {"topic": "drinks", "rank": 9, "new": True}
    assert (got["memory"], got["user_id"]) == ("Alice likes tea", "alice")


async def test_metadata_cannot_say_whose_a_memory_is(memory, caplog):
    await memory.add("mine", user_id="alice", metadata={"user_id": "bob", "app_id": "x", "k": 1})
    (item,) = (await memory.get_all(user_id="alice"))["results"]
    assert item["metadata"] == {"k": 1}
    assert "user_id" in caplog.text and "bob" not in caplog.text
    assert (await memory.get_all(user_id="bob"))["results"] == []


async def test_an_app_is_an_id_as_the_others(memory):
    await memory.add("of the mail app", user_id="alice", app_id="mail")
    await memory.add("of the shop app", user_id="alice", app_id="shop")
    for arguments in (
        {"user_id": "alice", "app_id": "mail"},
        {"filters": {"user_id": "alice", "app_id": "mail"}},
        {"filters": {"AND": [{"app_id": "mail"}, {"user_id": "alice"}]}},
        {"app_id": "mail"},
    ):
        (item,) = (await memory.get_all(**arguments))["results"]
        assert (item["memory"], item["app_id"]) == ("of the mail app", "mail")
        assert texts(await memory.search("app", **arguments)) == ["of the mail app"]
    assert len((await memory.get_all(user_id="alice"))["results"]) == 2
    for filters in ({"app_id": "*"}, {"user_id": "alice", "OR": [{"app_id": "mail"}]}):
        with pytest.raises(ValueError):
            await memory.search("x", filters=filters)
    await memory.delete_all(app_id="mail")
    assert texts(await memory.get_all(user_id="alice")) == ["of the shop app"]


async def test_delete_says_so_and_delete_all_keeps_to_its_scope(memory, alice):
    answer = await memory.delete(alice["Alice lives in Oslo"])
    assert answer == {"message": "Memory deleted successfully!"}
    answer = await memory.delete_all(user_id="alice")
    assert answer == {"message": "Memories deleted successfully!"}
    assert (await memory.get_all(user_id="alice"))["results"] == []
    assert texts(await memory.get_all(user_id="bob")) == ["Bob likes tea"]
    assert await memory.delete_all("bob") == answer


async def test_history_rows_are_mem0s(memory, alice):
    memory_id = alice["Alice likes tea"]
    await memory.update(memory_id, "Alice likes coffee")
    rows = await memory.history(memory_id)
    keys = "id memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role"
    assert all(list(row) == keys.split() for row in rows)
    assert [(row["event"], row["old_memory"], row["new_memory"]) for row in rows] == [
        ("ADD", None, "Alice likes tea"),
        ("UPDATE", "Alice likes tea", "Alice likes coffee"),
    ]
    assert len({row["id"] for row in rows}) == 2
    assert rows[0]["created_at"] == rows[1]["created_at"] < rows[1]["updated_at"]
    assert rows[1]["role"] == "user" and json.dumps(rows)
    await memory.delete(memory_id)
    last = (await memory.history(memory_id))[-1]
    assert (last["event"], last["is_deleted"]) == ("DELETE", True)


async def test_an_unknown_id_is_what_it_is_in_mem0(memory):
    assert await memory.get("nope") is None
    assert await memory.history("nope") == []
    for attempt in (
        memory.delete("nope"),
        memory.update("nope", "x"),
        memory.update("nope", metadata={"a": 1}),
    ):
        with pytest.raises(ValueError, match="Memory with id nope not found") as caught:
            await attempt
        assert isinstance(caught.value, MemoryNotFoundError)


VALUE_ERRORS = [
    lambda m: m.add("x"),
    lambda m: m.add(5, user_id="alice"),
    lambda m: m.add("x", user_id="a b"),
    lambda m: m.add("x", user_id=""),
    lambda m: m.get_all(),
    lambda m: m.get_all(filters={"topic": "x"}),
    lambda m: m.get_all(filters=["user_id"]),
    lambda m: m.search("x"),
    lambda m: m.search("", user_id="alice"),
    lambda m: m.search(None, user_id="alice"),
    lambda m: m.search("x", user_id="alice", threshold=2),
    lambda m: m.search("x", user_id="alice", top_k=-1),
    lambda m: m.search("x", user_id="alice", top_k=1.5),
    lambda m: m.search("x", user_id="alice", top_k=1, limit=2),
    lambda m: m.search("x", user_id="alice", filters={"user_id": "bob"}),
    lambda m: m.search("x", filters={"user_id": None}),
    lambda m: m.search("x", filters={"user_id": {"in": ["alice", "bob"]}}),
    lambda m: m.search("x", filters={"OR": [{"user_id": "alice"}, {"user_id": "bob"}]}),
    lambda m: m.update("m1"),
    lambda m: m.delete_all(),
    lambda m: m.delete_all(user_id=None),
]


async def test_what_mem0_refuses_with_a_value_error_is_one(memory):
    for call in VALUE_ERRORS:
        with pytest.raises(ValueError):
            await call(memory)


WILDCARDS = [
    lambda m: m.add("x", user_id="*"),
    lambda m: m.get_all(user_id="*"),
    lambda m: m.get_all(filters={"user_id": "*"}),
    lambda m: m.search("x", filters={"run_id": "*"}),
    lambda m: m.search("x", filters={"user_id": "alice", "run_id": "*"}),
    lambda m: m.search("x", filters={"AND": [{"user_id": "*"}]}),
    lambda m: m.delete_all(user_id="*"),
    lambda m: m.delete_all("alice", run_id="*"),
]


async def test_no_id_is_a_wildcard(memory, alice):
    for call in WILDCARDS:
        with pytest.raises(InvalidArgumentError, match="not patterns"):
            await call(memory)
    assert len((await memory.get_all(user_id="alice"))["results"]) == 3


NOT_HONOURED = [
    lambda m: m.reset(),
    lambda m: m.chat("hello"),
    lambda m: m.add("x", user_id="alice", timestamp=1),
    lambda m: m.add("x", user_id="alice", memory_type="procedural_memory"),
    lambda m: m.add("x", user_id="alice", prompt="be brief"),
    lambda m: m.search("x", user_id="alice", reference_date="2026-01-01"),
]


async def test_what_cannot_be_honoured_is_refused_with_a_sentence(memory, alice):
    for call in NOT_HONOURED:
        with pytest.raises(InferScaleError, match=r"cannot be honoured: .{10}") as caught:
            await call(memory)
        assert isinstance(caught.value, ValueError)
    assert len((await memory.get_all(user_id="alice"))["results"]) == 3


async def test_a_misspelt_argument_is_a_type_error(memory):
    with pytest.raises(TypeError, match="user"):
        await memory.search("x", user="alice")


async def test_the_sdk_behind_it_recalls_handles(memory, alice):
    handle = await memory.inferscale.recall("tea", user_id="alice", k=2)
    assert len(handle) == 2 and "Alice likes tea" in handle.text


@pytest.mark.parametrize("name", ["vector_store", "llm", "embedding_model", "db", "project"])
def test_parts_that_only_the_sidecar_has_say_so(name):
    with Memory() as memory, pytest.raises(AttributeError, match=f"{name} is not offered: "):
        getattr(memory, name)


def test_config_takes_what_is_ours_and_refuses_the_rest_in_one_sentence():
    config = {
        "vector_store": {"provider": "qdrant", "config": {"path": "/tmp/q"}},
        "llm": {"provider": "openai"},
        "embedder": {},
        "reranker": None,
        "misspelt": 1,
    }
    with pytest.raises(DialectError) as caught:
        Memory.from_config(config)
    for part in ("vector_store: ", "llm: ", "misspelt is not"):
        assert part in str(caught.value)
    assert "embedder" not in str(caught.value) and "reranker" not in str(caught.value)


@pytest.mark.parametrize(
    "config", [{"version": "v1.0"}, {"inferscale": {"url": "x"}}, ["vector_store"]]
)
def test_a_config_that_means_nothing_here_is_refused(config):
    with pytest.raises(DialectError):
        Memory(config)


async def test_async_clients_close_as_in_mem0():
    async with AsyncMemory() as memory:
        assert memory.inferscale is not None
    await AsyncMemory().close()
    closing = AsyncMemory().close()  # Mem0's code does not await it
    await closing
