"""Rules of pinned blocks: limits, versions, who may edit; and blocks in recalls."""

from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PermissionDenied,
    TooLarge,
    Unsupported,
)
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.store.block_port import BlockDraft

from .fakes import ListFrame

ALICE = Scope(user_id="alice")


async def _create(world: Any, value: str = "Name: Al", scope: Scope = ALICE, **fields: Any):
    draft = BlockDraft(**{"label": "human", "value": value, "limit": 20} | fields)
    return await world.blocks.create(world.tenant, scope, draft)


async def test_an_agent_appends_lines_and_replaces_every_occurrence(world: Any) -> None:
    block = await _create(world, "")
    block = await world.blocks.append(world.tenant, block.id, "tea")
    block = await world.blocks.append(world.tenant, block.id, "tea, cake")
    assert (block.value, block.version) == ("tea\ntea, cake", 3)
    block = await world.blocks.replace(world.tenant, block.id, "tea", "rum")
    assert (block.value, block.version) == ("rum\nrum, cake", 4)
    block = await world.blocks.replace(world.tenant, block.id, "rum\n", "")
    assert block.value == "rum, cake"
    with pytest.raises(InvalidInput, match="letter by letter"):
        await world.blocks.replace(world.tenant, block.id, "Rum", "x")


async def test_over_the_limit_names_both_numbers_and_changes_nothing(world: Any) -> None:
    block = await _create(world, "0123456789")
    blocks, tenant = world.blocks, world.tenant
    for attempt in (
        blocks.append(tenant, block.id, "0123456789"),
        blocks.update(tenant, block.id, {"value": "x" * 21}),
        blocks.replace(tenant, block.id, "0", "x" * 12),
        _create(world, "x" * 21, label="other"),
    ):
        with pytest.raises(TooLarge, match=r"would have 21 characters, its limit is 20"):
            await attempt
    with pytest.raises(TooLarge, match=r"10 characters, its limit is 9"):
        await blocks.update(tenant, block.id, {"limit": 9})
    assert await blocks.get(tenant, block.id) == block
    raised = await blocks.update(tenant, block.id, {"limit": 21, "value": "x" * 21})
    assert raised.version == 2


async def test_an_edit_of_what_was_changed_meanwhile_is_refused(world: Any) -> None:
    block = await _create(world)
    blocks, tenant = world.blocks, world.tenant
    await blocks.append(tenant, block.id, "x", if_version=1)
    for attempt in (
        blocks.append(tenant, block.id, "y", if_version=1),
        blocks.replace(tenant, block.id, "x", "y", if_version=1),
        blocks.update(tenant, block.id, {"value": "y"}, if_version=1),
    ):
        with pytest.raises(Conflict, match=r"version 2, not 1: .*read it again"):
            await attempt
    assert (await blocks.get(tenant, block.id)).value == "Name: Al\nx"


async def test_read_only_is_for_agents_not_for_developers(world: Any) -> None:
    block = await _create(world, read_only=True)
    blocks, tenant = world.blocks, world.tenant
    for attempt in (
        blocks.append(tenant, block.id, "x"),
        blocks.replace(tenant, block.id, "Al", "x"),
    ):
        with pytest.raises(PermissionDenied, match="read-only"):
            await attempt
    assert (await blocks.update(tenant, block.id, {"value": "x"})).value == "x"
    await blocks.update(tenant, block.id, {"read_only": False})
    assert (await blocks.append(tenant, block.id, "y")).value == "x\ny"


async def test_another_tenants_block_is_not_there(world: Any) -> None:
    block = await _create(world)
    blocks, other = world.blocks, world.other
    for attempt in (
        blocks.get(other, block.id),
        blocks.update(other, block.id, {"value": "x"}),
        blocks.append(other, block.id, "x"),
        blocks.attach(other, block.id, ALICE),
        blocks.detach(other, block.id, ALICE),
        blocks.delete(other, block.id),
        blocks.history(other, block.id),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await blocks.list(other, Scope())).total == 0
    assert await blocks.get(world.tenant, block.id) == block


async def test_metadata_is_checked_and_null_removes_it(world: Any) -> None:
    block = await _create(world, metadata={"a": 1})
    assert block.metadata == {"a": 1}
    with pytest.raises(InvalidInput, match="metadata"):
        await world.blocks.update(world.tenant, block.id, {"metadata": {"a": float("nan")}})
    changed = await world.blocks.update(world.tenant, block.id, {"metadata": None})
    assert (changed.metadata, changed.version) == (None, 1)
    with pytest.raises(InvalidInput, match="at least one field"):
        await world.blocks.update(world.tenant, block.id, {})


async def _recall(world: Any, scope: Scope = ALICE, **options: Any):
    return await world.recall.recall(world.tenant, scope, "tea", **options)


async def test_every_recall_begins_with_the_blocks(world: Any) -> None:
    await world.memory.add(world.tenant, ALICE, [Message(content="tea is fine")])
    human = await _create(world)
    persona = await _create(world, "Kind.", Scope(agent_id="a"), label="persona")
    recalled = await _recall(world)
    assert [(b.block_id, b.version) for b in recalled.blocks] == [(human.id, 1)]
    assert (await world.recall.show(recalled)).text == "[human] Name: Al\n- tea is fine\n"
    both = await _recall(world, Scope("alice", "a"))
    assert [b.block_id for b in both.blocks] == [persona.id, human.id]
    nothing = await _recall(world, k=0)
    assert (await world.recall.show(nothing)).text == "[human] Name: Al\n"
    assert (await _recall(world, Scope("bob"))).blocks == ()
    once = await _recall(world, keep=False)
    assert once.blocks == recalled.blocks


async def test_a_change_is_seen_by_new_handles_only(world: Any) -> None:
    block = await _create(world)
    old = await _recall(world)
    await world.blocks.append(world.tenant, block.id, "likes tea")
    again = await world.recall.resolve(world.tenant, old.handle)
    assert again == old and again.blocks[0].value == "Name: Al"
    assert (await _recall(world)).blocks[0].value == "Name: Al\nlikes tea"
    await world.blocks.delete(world.tenant, block.id)
    assert (await world.recall.resolve(world.tenant, old.handle)).blocks == ()


async def test_a_token_budget_counts_the_blocks_and_keeps_the_best_items(world: Any) -> None:
    await _create(world)  # three words
    for text in ("tea one", "tea", "coffee two three"):
        await world.memory.add(world.tenant, ALICE, [Message(content=text)])

    async def texts(max_tokens: int) -> list[str]:
        return [item.text for item in (await _recall(world, max_tokens=max_tokens)).items]

    assert await texts(100) == ["coffee two three", "tea one", "tea"]
    assert await texts(12) == ["coffee two three", "tea one", "tea"]
    assert await texts(11) == ["tea one", "tea"]
    assert await texts(5) == ["tea"]
    assert await texts(3) == []
    with pytest.raises(TooLarge, match="alone are 3 tokens, max_tokens is 2"):
        await texts(2)
    blind = RecallService(world.store, world.recall._searcher, ListFrame(), world.metrics)
    with pytest.raises(Unsupported, match="tokenizer"):
        await blind.recall(world.tenant, ALICE, "tea", max_tokens=5)


async def test_deleting_a_user_takes_the_blocks(world: Any) -> None:
    block = await _create(world)
    world.writes.clear()
    removed = await world.memory.delete_all(world.tenant, ALICE)
    assert (removed.memories, removed.blocks) == (0, 1)
    assert world.writes, "the queue that purges the bank must wake up"
    with pytest.raises(NotFound):
        await world.blocks.get(world.tenant, block.id)
