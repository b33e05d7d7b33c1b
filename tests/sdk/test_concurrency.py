"""Clients used by many at once: from threads, and as many tasks without any thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from inferscale import AsyncMemory, Memory

BASE_URL = "http://127.0.0.1:1"


def _echo(request: httpx.Request) -> httpx.Response:
    user_id = request.url.params["user_id"]
    found = {"results": [], "total": int(user_id), "next_cursor": None}
    return httpx.Response(200, json=found)


def test_one_client_serves_many_threads_each_with_its_own_answer():
    client = httpx.Client(transport=httpx.MockTransport(_echo))
    with Memory(base_url=BASE_URL, http_client=client) as memory, ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda n: memory.get_all(user_id=str(n)).total, range(200))
        assert list(found) == list(range(200))


async def test_awaiting_starts_no_threads():
    client = httpx.AsyncClient(transport=httpx.MockTransport(_echo))
    before = threading.active_count()
    async with AsyncMemory(base_url=BASE_URL, http_client=client) as memory:
        work = [memory.get_all(user_id=str(n)) for n in range(200)]
        pages = asyncio.gather(*work)
        await asyncio.sleep(0)
        assert threading.active_count() == before
        assert [page.total for page in await pages] == list(range(200))
    assert threading.active_count() == before
