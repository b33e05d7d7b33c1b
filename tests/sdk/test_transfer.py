"""`export_to` and `import_from` of both clients, against the real application and a failing one."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.sdk.compat.conftest import BASE_URL, AwaitingTransport, BlockingTransport, Sidecar
from tests.sdk.conftest import Awaited

from inferscale import (
    APIConnectionError,
    AsyncMemory,
    InvalidArgumentError,
    InvalidRequestError,
    Memory,
    PermissionDeniedError,
    StreamError,
)
from inferscale_sidecar.api.routes.documents import create_documents_router
from inferscale_sidecar.api.routes.transfer import create_transfer_router

END = b'{"type":"end","memories":2,"links":0,"blocks":0,"threads":0,"messages":0,"documents":1}\n'


@pytest.fixture(scope="module")
def sidecar_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("transfer")
    app = Sidecar(
        folder / "memory.db",
        routers=lambda documents, transfer: (
            create_documents_router(documents),
            create_transfer_router(transfer),
        ),
    )
    yield app
    app.close()


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def client(app: Sidecar, kind: str, name: str, scopes: tuple[str, ...] = ("admin",)) -> Any:
    key = app.create_key(f"{name}-{kind}", scopes)
    if kind == "sync":
        inner = httpx.Client(transport=BlockingTransport(app))
        return Memory(BASE_URL, api_key=key, http_client=inner)
    awaiting = httpx.AsyncClient(transport=AwaitingTransport(app))
    return AsyncMemory(BASE_URL, api_key=key, http_client=awaiting)


class Parts:
    """A client with its parts, all of whose methods can be awaited."""

    def __init__(self, target: Any) -> None:
        self.memory = Awaited(target)
        self.threads = Awaited(target.threads)
        self.documents = Awaited(target.documents.of_user("alice"))


async def remember(parts: Parts) -> None:
    await parts.memory.add("likes tea", user_id="alice", infer=False)
    await parts.memory.add("likes rum", user_id="bob", infer=False)
    await parts.threads.create("alice", thread_id="t")
    await parts.threads.add_messages("t", "hello")
    await parts.documents.put(("a",), "k", {"text": "x"}, index=["text"])


async def test_a_user_goes_to_a_file_and_into_another_tenant(
    sidecar_app: Sidecar, kind: str, tmp_path: Path
) -> None:
    one, two = (Parts(client(sidecar_app, kind, f"user-{n}")) for n in "ab")
    await remember(one)
    path = tmp_path / "alice.jsonl"
    written = await one.memory.export_to(path, user_id="alice")
    assert (written.memories, written.threads, written["messages"], written.documents) == (1,) * 4
    assert written.num_bytes == path.stat().st_size
    assert path.stat().st_mode & 0o077 == 0
    assert b"rum" not in path.read_bytes()
    planned = await two.memory.import_from(path, dry_run=True)
    assert (planned.memories, planned.dry_run) == (1, True)
    assert (await two.memory.get_all(user_id="alice")).total == 0
    done = await two.memory.import_from(str(path))
    assert (done.memories, done.threads, done.messages, done.documents) == (1,) * 4
    assert (await two.memory.import_from(path)).unchanged == 4
    assert [hit.memory for hit in (await two.memory.search("tea", user_id="alice")).results] == [
        "likes tea"
    ]
    assert (await two.documents.get(("a",), "k")).value == {"text": "x"}


async def test_a_tenant_goes_into_an_open_file_and_back(sidecar_app: Sidecar, kind: str) -> None:
    parts = Parts(client(sidecar_app, kind, "whole"))
    await remember(parts)
    file = io.BytesIO()
    file.write(b"before")
    start = file.tell()
    assert (await parts.memory.export_to(file, vectors=True)).memories == 2
    lines = [json.loads(line) for line in file.getvalue()[start:].splitlines()]
    assert all("vector" in line for line in lines if line["type"] == "memory")
    await parts.memory.delete_all(user_id="alice")
    file.seek(start)
    report = await parts.memory.import_from(file)
    assert (report.deleted, report.unchanged, report.messages) == (1, 1, 1)
    file.seek(start)
    assert (await parts.memory.import_from(file, restore=True)).memories == 1


async def test_what_is_wrong_with_a_file_is_said(sidecar_app: Sidecar, kind: str) -> None:
    parts = Parts(client(sidecar_app, kind, "wrong"))
    await remember(parts)
    file = io.BytesIO()
    await parts.memory.export_to(file)
    bad = io.BytesIO(file.getvalue().replace(b'"likes tea"', b'" "'))
    with pytest.raises(InvalidRequestError, match="line 2: memory: text is empty"):
        await parts.memory.import_from(bad)
    bad.seek(0)
    assert (await parts.memory.import_from(bad, skip_invalid=True)).invalid == 1


async def test_it_takes_an_admin_key(sidecar_app: Sidecar, kind: str, tmp_path: Path) -> None:
    parts = Parts(client(sidecar_app, kind, "writer", ("read", "write")))
    path = tmp_path / "all.jsonl"
    with pytest.raises(PermissionDeniedError):
        await parts.memory.export_to(path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(END)
    with pytest.raises(PermissionDeniedError):
        await parts.memory.import_from(path)


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body whose pieces come one after the other; each sees what became of those before."""

    def __init__(self, pieces: list[bytes | Exception], seen: list[Any], look: Any) -> None:
        self._pieces, self._seen, self._look = pieces, seen, look

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece
            self._seen.append(self._look())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            await asyncio.sleep(0)
            yield piece


async def test_pieces_are_written_as_they_come(connect: Any) -> None:
    file, seen = io.BytesIO(), []
    body = Pieces([b"x" * 1000 + b"\n", END], seen, lambda: file.tell())
    memory = connect(lambda request: httpx.Response(200, stream=body))
    result = await memory.export_to(file)
    assert seen == [1001, 1001 + len(END)]
    assert (result.memories, result.documents, result.num_bytes) == (2, 1, 1001 + len(END))


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([b'{"type":"header"}\n', httpx.ReadError("gone")], APIConnectionError),
        ([b'{"type":"header"}\n'], StreamError),
        ([END[:-1]], StreamError),
        ([b'{"type":"end"}\n'], StreamError),
        ([], StreamError),
    ],
)
async def test_a_broken_export_leaves_the_file_as_it_was(
    connect: Any, tmp_path: Path, pieces: list[Any], error: type[Exception]
) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_bytes(b"the old one")
    body = Pieces(pieces, [], lambda: None)
    memory = connect(lambda request: httpx.Response(200, stream=body), max_retries=0)
    with pytest.raises(error):
        await memory.export_to(path)
    assert path.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [path]


async def test_a_retry_sends_the_file_from_its_start(connect: Any, tmp_path: Path) -> None:
    content = b"y" * 600_000
    path = tmp_path / "backup.jsonl"
    path.write_bytes(content)
    file = io.BytesIO(b"before" + content)
    for source in (path, file):
        file.seek(len(b"before"))
        bodies: list[bytes] = []

        async def answer(request: httpx.Request, bodies: list[bytes] = bodies) -> httpx.Response:
            bodies.append(await request.aread())
            return reply(bodies)

        def answer_now(request: httpx.Request, bodies: list[bytes] = bodies) -> httpx.Response:
            bodies.append(request.read())
            return reply(bodies)

        def reply(bodies: list[bytes]) -> httpx.Response:
            if len(bodies) == 1:
                return httpx.Response(503, json={}, headers={"retry-after": "0"})
            return httpx.Response(200, json={"memories": 3})

        is_sync = isinstance(connect().target, Memory)
        memory = connect(answer_now if is_sync else answer)
        assert (await memory.import_from(source)).memories == 3
        assert bodies == [content, content]


async def test_what_cannot_be_read_is_said_before_anything_is_sent(
    sidecar: Any, memory: Any, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        await memory.import_from(tmp_path / "absent")

    class Pipe(io.RawIOBase):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InvalidArgumentError, match="cannot be read twice"):
        await memory.import_from(Pipe())
    assert sidecar.requests == []
