"""An HTTP client in front of the whole application, without a socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from inferscale_sidecar.api.app import create_app
from inferscale_sidecar.api.routes.health import ReadyState

BASE_URL = "http://127.0.0.1:8420"
CreateClient = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def state() -> dict[str, ReadyState]:
    """What readiness answers; tests change it."""
    return {"now": ReadyState(True, {"engine": "up"})}


@pytest.fixture
def create(world: Any, state: dict[str, ReadyState]) -> Callable[..., FastAPI]:
    """Makes the application, with more routers or another limit if asked."""

    def make(*routers: APIRouter, **options: Any) -> FastAPI:
        return create_app(
            memory=world.memory,
            recall=world.recall,
            blocks=world.blocks,
            threads=world.threads,
            tenants=world.tenants,
            metrics=world.metrics,
            readiness=lambda: state["now"],
            extra_routers=routers,
            **options,
        )

    return make


@pytest.fixture
def create_client(create: Callable[..., FastAPI]) -> CreateClient:
    """Makes a client; `peer` is the address it seems to come from."""

    @asynccontextmanager
    async def make(
        *routers: APIRouter, peer: str = "127.0.0.1", base_url: str = BASE_URL, **options: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(create(*routers, **options), client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            yield client

    return make


@pytest.fixture
async def client(create_client: CreateClient) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client() as client:
        yield client
