"""Fixtures of the chat tests."""

from collections.abc import AsyncIterator

import httpx
import pytest
from tests.sidecar.chat.stage import Stage
from tests.sidecar.engine.fake_engine import FakeEngine


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        stage = Stage(engine, client)
        yield stage
        await stage.warmer.stop()


@pytest.fixture
async def http(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    """The sidecar as its clients see it."""
    transport = httpx.ASGITransport(stage.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://sidecar") as client:
        yield client
