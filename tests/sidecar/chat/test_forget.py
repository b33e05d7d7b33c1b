"""Every request that shows memory tells the engine which, so that it can be forgotten there."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from tests.sidecar.chat.stage import HELLO, Stage
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale.protocol.engine import Shown
from inferscale_sidecar.build.exact import LazyExactness
from inferscale_sidecar.core import PinnedBlock
from inferscale_vllm.operation import Build, Inject, Show
from inferscale_vllm.plan import begins_of

FACTS = tuple(f"Fact number {n} about the town." for n in range(6))
CHAT = "/v1/chat/completions"
BLOCK = PinnedBlock("block-1", 3, "human", "Name: Noor", "who she is")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        stage = Stage(engine, client, lazy=LazyExactness(client, after_uses=1))
        await stage.remember(*FACTS)
        engine.shown.clear()
        yield stage
        await stage.warmer.stop()


async def ask(stage: Stage, http: httpx.AsyncClient, **memory: object) -> None:
    body = {"model": "demo", "messages": HELLO, "memory": {"handle": "mh_acme", **memory}}
    assert (await http.post(CHAT, json=body)).status_code == 200
    assert stage.lazy is not None
    await stage.lazy.wait_idle()


def begins(stage: Stage, shows: tuple[Shown, ...], ids: tuple[int, ...]) -> dict[str, int]:
    """Where the connector would say that the texts begin."""
    items = {key: np.asarray(ids, np.int32) for key, ids in stage.engine.bank.items()}
    found = begins_of(np.asarray(ids, np.int32), shows, items)
    return {name: at for at, name in found}


def truth(stage: Stage, ids: tuple[int, ...], text: str) -> int:
    """At which token the text begins, or the one before."""
    tokenizer = stage.engine.tokenizer
    return next(
        at
        for at in range(len(ids), -1, -1)
        if text in tokenizer._hf.decode(list(ids[at:]))  # no public way to decode
    )


@pytest.mark.parametrize(
    "memory",
    [{}, {"inject": False}, {"fidelity": "exact"}, {"fidelity": "fast"}],
    ids=["injected", "text", "exact", "fast"],
)
async def test_all_memories_of_a_prompt_are_named_and_found(
    stage: Stage, http: httpx.AsyncClient, memory: dict[str, Any]
) -> None:
    stage.recall.blocks = (BLOCK,)
    await ask(stage, http, **memory)
    operation, ids = next((o, i) for o, i in stage.engine.shown if not isinstance(o, Build))
    assert isinstance(operation, Show if memory.get("inject") is False else Show | Inject)
    found = begins(stage, operation.shows, ids)
    named = {i.memory_id: i.text for i in stage.store.live.values()}
    assert found.keys() == {"block-1", *named}
    for name, text in named.items():
        assert 0 <= truth(stage, ids, text) - found[name] <= 1, "its bullet comes first"
    assert 0 < found["block-1"] <= truth(stage, ids, "Name: Noor")


async def test_memories_without_kv_begin_where_the_list_does(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    stage.store.kv.clear()
    await ask(stage, http)
    ((operation, ids),) = stage.engine.shown
    found = begins(stage, operation.shows, ids)
    assert len(set(found.values())) == 1
    first = truth(stage, ids, FACTS[0])
    assert 0 < first - 20 < min(found.values()) <= first


async def test_exact_prefills_and_prefixes_with_blocks_are_named_too(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    stage.recall.blocks = (BLOCK,)
    await ask(stage, http)
    (prefix,) = [o for o, _ in stage.engine.shown if isinstance(o, Build)]
    (chat,) = [o for o, _ in stage.engine.shown if isinstance(o, Inject)]
    (again,) = [o for o, _ in stage.engine.shown if isinstance(o, Show)]
    assert prefix.shows == chat.shows[:1] and prefix.shows[0].texts == (("block-1", None),)
    assert not prefix.is_scratch, "the request that follows it looks it up"
    assert again.shows == chat.shows


async def test_windows_of_new_items_leave_nothing_in_the_cache(stage: Stage) -> None:
    stage.engine.builds.clear()
    stage.store.add("One more.")
    stage.queue.start()
    stage.queue.notify()
    await stage.queue.wait_idle()
    await stage.queue.stop()
    assert stage.engine.builds and all(build.is_scratch for build in stage.engine.builds)


async def test_a_request_without_memory_names_nothing(
    stage: Stage, http: httpx.AsyncClient
) -> None:
    await http.post(CHAT, json={"model": "demo", "messages": HELLO})
    assert stage.engine.shown == []
