"""`memory.blocks` against the real application; and the tools that a model is given."""

import inspect
import json
from types import SimpleNamespace
from typing import Any

import pytest

import inferscale
from inferscale import (
    AsyncBlocks,
    AsyncMemory,
    Blocks,
    ConflictError,
    InvalidArgumentError,
    InvalidRequestError,
    Memory,
    NotFoundError,
    PermissionDeniedError,
    TooLargeError,
    block_tools,
    is_block_tool,
)

from .compat.conftest import (  # noqa: F401  fixtures
    BASE_URL,
    Awaited,
    api_key,
    connect,
    http_client,
    kind,
)
from .compat.conftest import sidecar as real_sidecar  # noqa: F401

ALICE = {"user_id": "alice"}


@pytest.fixture(scope="session")
def sidecar(real_sidecar: Any) -> Any:  # noqa: F811
    return real_sidecar


@pytest.fixture
def memory(connect: Any, http_client: Any, api_key: str) -> Awaited:  # noqa: F811
    return connect(Memory, AsyncMemory, api_key=api_key, base_url=BASE_URL, http_client=http_client)


async def test_a_block_is_made_changed_shared_and_forgotten(memory: Any) -> None:
    block = await memory.blocks.create(
        "human", "Name: Al", **ALICE, description="who", limit=99, metadata={"a": 1}
    )
    assert (block.label, block["value"], block.version, block.limit) == ("human", "Name: Al", 1, 99)
    assert await memory.blocks.get(block.id) == block
    block = await memory.blocks.update(block.id, value="Al", metadata={}, if_version=1)
    assert (block.value, block.metadata, block.description, block.version) == ("Al", None, "who", 2)
    block = await memory.blocks.append(block.id, "tea")
    block = await memory.blocks.replace(block.id, "tea", "rum", if_version=3)
    assert (block.value, block.version) == ("Al\nrum", 4)
    shared = await memory.blocks.attach(block.id, agent_id="a")
    assert [scope.agent_id for scope in shared.scopes] == ["a", None]
    assert (await memory.blocks.list(agent_id="a")).results == [shared]
    assert (await memory.blocks.shown(agent_id="a")).results == [shared]
    assert len((await memory.blocks.detach(block.id, agent_id="a")).scopes) == 1
    assert [e.event for e in await memory.blocks.history(block.id)] == ["ADD", *["UPDATE"] * 3]
    assert (await memory.blocks.delete(block.id)).blocks == 1
    assert await memory.blocks.get(block.id) is None
    assert await memory.blocks.history("block-none") == []


async def test_recall_shows_it_and_delete_all_takes_it(memory: Any) -> None:
    block = await memory.blocks.create("human", "Name: Al", **ALICE)
    handle = await memory.recall("anything", **ALICE)
    assert [(b.id, b.label, b.value) for b in handle.blocks] == [(block.id, "human", "Name: Al")]
    assert "Name: Al" in str(handle) and len(handle) == 0
    assert await memory.get_handle(handle.id) == handle
    receipt = await memory.delete_all(**ALICE)
    assert (receipt.deleted, receipt.blocks) == (0, 1)
    assert (await memory.get_handle(handle.id)).blocks == ()


async def test_lists_are_whole_unless_a_page_is_asked_for(memory: Any) -> None:
    for n in range(3):
        await memory.blocks.create(f"b{n}", user_id=f"u{n}")
    everything = await memory.blocks.list()
    assert [b.label for b in everything.results] == ["b0", "b1", "b2"]
    page = await memory.blocks.list(limit=2)
    rest = await memory.blocks.list(cursor=page.next_cursor)
    assert [*page.results, *rest.results] == everything.results
    assert [b.label for b in (await memory.blocks.list(label="b1")).results] == ["b1"]


async def test_a_refusal_names_one_remedy(memory: Any) -> None:
    block = await memory.blocks.create("human", "Al", **ALICE, limit=3, read_only=True)
    with pytest.raises(PermissionDeniedError) as caught:
        await memory.blocks.append(block.id, "x")
    assert "PATCH" in str(caught.value) and "API key" not in str(caught.value)
    with pytest.raises(TooLargeError) as full:
        await memory.blocks.update(block.id, value="Alice")
    assert "raise the limit" in str(full.value) and "several requests" not in str(full.value)


async def test_refusals_are_typed(memory: Any) -> None:
    block = await memory.blocks.create("human", "Name: Al", **ALICE, limit=10)
    locked = await memory.blocks.create("locked", **ALICE, read_only=True)
    blocks = memory.blocks
    for attempt, kind in (  # noqa: F402
        (blocks.create("human", **ALICE), ConflictError),
        (blocks.update(block.id, value="x", if_version=9), ConflictError),
        (blocks.append(block.id, "xxx"), TooLargeError),
        (blocks.replace(block.id, "nope", ""), InvalidRequestError),
        (blocks.append(locked.id, "x"), PermissionDeniedError),
        (blocks.delete("block-none"), NotFoundError),
        (blocks.update(block.id), InvalidArgumentError),
        (blocks.create("two words"), InvalidArgumentError),
        (blocks.create("x", user_id="*"), InvalidArgumentError),
        (blocks.attach(block.id), InvalidArgumentError),
        (blocks.shown(), InvalidArgumentError),
    ):
        with pytest.raises(kind):
            await attempt


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


async def test_a_models_call_edits_the_developers_scope(memory: Any) -> None:
    mine = await memory.blocks.create("human", "Al", **ALICE)
    theirs = await memory.blocks.create("human", "Bo", user_id="bob")
    done = await memory.blocks.run_tool(
        # Whom the model names has no effect.
        call("core_memory_append", label="human", content="tea", user_id="bob"),
        **ALICE,
    )
    assert (done["role"], done["tool_call_id"]) == ("tool", "call_1")
    assert done["content"].startswith("Done.")
    function = SimpleNamespace(
        name="core_memory_replace",
        arguments='{"label": "human", "old_content": "tea", "new_content": "rum"}',
    )
    await memory.blocks.run_tool(SimpleNamespace(id="c2", function=function), **ALICE)
    assert (await memory.blocks.get(mine.id)).value == "Al\nrum"
    assert await memory.blocks.get(theirs.id) == theirs


async def test_the_narrowest_block_of_a_label_is_edited(memory: Any) -> None:
    wide = await memory.blocks.create("notes", "all", agent_id="a")
    narrow = await memory.blocks.create("notes", "his", **ALICE)
    edit = call("core_memory_append", label="notes", content="x")
    await memory.blocks.run_tool(edit, **ALICE, agent_id="a")
    assert (await memory.blocks.get(narrow.id)).value == "his\nx"
    assert await memory.blocks.get(wide.id) == wide


async def test_what_the_model_did_wrong_is_told_to_it(memory: Any) -> None:
    await memory.blocks.create("human", "Al", **ALICE, limit=5)
    await memory.blocks.create("locked", **ALICE, read_only=True)
    append, replace = "core_memory_append", "core_memory_replace"
    cut = call(append) | {"function": {"name": append, "arguments": '{"label": "hum'}}
    for wrong, said in (
        (call(append, label="humn", content="x"), "there are: 'human', 'locked'"),
        (call(append, label="human", content="xxx"), "6 characters, its limit is 5"),
        (call(append, label="locked", content="x"), "read-only"),
        (call(append, label="human", content=""), "empty"),
        (call(append, label="human"), "named label, content"),
        (call(append, label="human", content=["x"]), "named label, content"),
        (call(replace, label="human", old_content="Bo", new_content=""), "letter by letter"),
        (cut, "not JSON"),
    ):
        content = (await memory.blocks.run_tool(wrong, **ALICE))["content"]
        assert content.startswith("Error: ") and said in content, content
    for wrong in (call("get_weather", label="human"), {"id": "x"}, "x"):
        with pytest.raises(InvalidArgumentError):
            await memory.blocks.run_tool(wrong, **ALICE)
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await memory.blocks.run_tool(call(append, label="human", content="x"))
    assert (await memory.blocks.list(label="human")).results[0].value == "Al"


def test_tools_are_strict_schemas_of_the_names_that_memgpt_has() -> None:
    append, replace = (tool["function"] for tool in block_tools(["human"]))
    assert (append["name"], replace["name"]) == ("core_memory_append", "core_memory_replace")
    for function, texts in ((append, ["content"]), (replace, ["old_content", "new_content"])):
        parameters = function["parameters"]
        assert parameters["required"] == ["label", *texts] == list(parameters["properties"])
        assert parameters["properties"]["label"]["enum"] == ["human"]
        assert parameters["additionalProperties"] is False
    assert "enum" not in block_tools()[0]["function"]["parameters"]["properties"]["label"]
    assert is_block_tool(call("core_memory_append")) and not is_block_tool(call("get_weather"))


def test_both_kinds_have_the_same_methods() -> None:
    names = [name for name in vars(Blocks) if not name.startswith("_")]
    assert names == [name for name in vars(AsyncBlocks) if not name.startswith("_")]
    for name in names:
        ours, theirs = (inspect.signature(getattr(each, name)) for each in (Blocks, AsyncBlocks))
        assert ours == theirs, name
        assert inspect.iscoroutinefunction(getattr(AsyncBlocks, name))
        assert inspect.getdoc(getattr(Blocks, name))
    assert inferscale.Memory.blocks.fget
