"""A build counts once the bank holds it, not once the engine has answered."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from inferscale.protocol.engine import Capture
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.engine.settle import settled
from inferscale_sidecar.errors import EngineUnavailable

from .fake_engine import FakeEngine

KEYS = ["aa" * 32, "bb" * 32]
CAPTURES = [Capture(KEYS[0], 1, 3), Capture(KEYS[1], 3, 5)]


@pytest.fixture
def engine() -> FakeEngine:
    engine = FakeEngine()
    engine.writes_late = True
    return engine


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[EngineClient]:
    async with engine.client() as client:
        await client.status()
        yield client


async def test_stored_means_in_the_bank(engine: FakeEngine, client: EngineClient) -> None:
    build = asyncio.create_task(send_build(client, range(9), tag="t", captures=CAPTURES))
    await asyncio.wait({build}, timeout=0.1)
    assert not build.done() and set(engine.writing) == set(KEYS)
    engine.bank[KEYS[0]] = engine.writing.pop(KEYS[0])
    await asyncio.wait({build}, timeout=0.1)
    assert not build.done()
    del engine.writing[KEYS[1]]  # dropped: the bank had no room
    assert await build == {KEYS[0]}


async def test_what_takes_too_long_is_not_counted(engine: FakeEngine, client: EngineClient) -> None:
    engine.writing[KEYS[1]] = (1,)
    assert await settled(client, KEYS[:1], KEYS[1:], max_wait_s=0.05) == {KEYS[0]}


async def test_an_engine_that_dies_before_the_disk_has_it(
    engine: FakeEngine, client: EngineClient
) -> None:
    engine.writing[KEYS[0]] = (1,)
    build = asyncio.create_task(settled(client, (), KEYS))
    await asyncio.sleep(0.05)
    engine.is_down = True
    with pytest.raises(EngineUnavailable):
        await build
