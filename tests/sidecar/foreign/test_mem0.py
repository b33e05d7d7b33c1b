"""Mem0's stores, as released versions of it left them on disk (`make_fixtures.py`)."""

import json
import pickle
import shutil
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.sidecar.databases import Backend
from tests.sidecar.service.transfer_world import Place, opened

from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import ConfigError, InvalidInput
from inferscale_sidecar.foreign.mem0_history import Mem0History
from inferscale_sidecar.foreign.points import Point, open_points
from inferscale_sidecar.foreign.qdrant_server import QdrantServerPoints
from inferscale_sidecar.foreign.unpickle import read_pickle
from inferscale_sidecar.service.mem0_source import Mem0Source
from inferscale_sidecar.service.transfer_import import ImportOptions

STORES = Path(__file__).parent / "mem0"
RELEASES = ("1.0.11", "2.2.1")


@pytest.fixture
async def place(backend: Backend) -> AsyncIterator[Place]:
    async with opened(backend) as place:
        yield place


def source_of(release: str, provider: str) -> Mem0Source:
    folder = STORES / release
    history = Mem0History(folder / f"{provider}.db")
    return Mem0Source(open_points(str(folder / provider), "mem0"), history)


@pytest.mark.parametrize("provider", ["qdrant", "faiss"])
@pytest.mark.parametrize("release", RELEASES)
async def test_memories_come_with_ids_scopes_metadata_and_history(
    place: Place, release: str, provider: str
) -> None:
    source = source_of(release, provider)
    options = ImportOptions(keep_ids=True)
    report = await place.transfer.import_from(place.tenant, source, options)
    assert (report.memories, report.duplicates, report.invalid) == (6, 1, 0)
    alice, bob, guide = Scope("alice"), Scope("bob"), Scope(agent_id="guide")
    found = {memory.text: memory for memory in await place.all(alice, bob, guide)}
    assert set(found) == {
        *("I live in Paris", "Noted: Lyon", "Alice likes green tea", "A secret"),
        *("The guide speaks 日本語", "Bob said it twice"),
    }
    city = found["I live in Paris"]
    points = {point.id: point for point in open_points(str(STORES / release / provider), "mem0")}
    assert points[city.id].payload["data"] == city.text
    assert (city.role, city.actor_id, city.version) == ("user", "Alice", 3)
    assert found["Noted: Lyon"].metadata == {"topic": "home", "n": 1}
    assert city.created_at.isoformat() == points[city.id].payload["created_at"]
    events = await place.memory.history(place.tenant, city.id)
    assert [(e.event, e.text) for e in events] == [
        ("ADD", "I live in Lyon"),
        ("UPDATE", "I live in Nice"),
        ("UPDATE", "I live in Paris"),
    ]
    assert events[0].created_at < events[1].created_at < events[2].created_at
    assert found["Alice likes green tea"].scope == Scope("alice", "guide")
    hits = await place.memory.search(place.tenant, alice, "green tea")
    assert hits[0].memory.text == "Alice likes green tea"
    again = await place.transfer.import_from(place.tenant, source, options)
    assert (again.memories, again.unchanged, again.duplicates) == (0, 6, 1)


async def test_ids_are_new_ones_unless_kept_and_the_same_each_time(place: Place) -> None:
    source = source_of("2.2.1", "qdrant")
    for expected in (6, 0):
        report = await place.transfer.import_from(place.tenant, source, ImportOptions())
        assert report.memories == expected
    theirs = {point.id for point in open_points(str(STORES / "2.2.1" / "qdrant"), "mem0")}
    assert not theirs & {memory.id for memory in await place.all(Scope("alice"))}


def test_without_a_history_each_memory_has_one_version() -> None:
    points = open_points(str(STORES / "2.2.1" / "faiss"), "mem0")
    versions = [len(entry.what.versions) for entry in Mem0Source(points)]  # type: ignore[union-attr]
    assert versions == [1] * 7


def test_what_cannot_be_stored_is_named() -> None:
    made = {"created_at": "2025-01-01T00:00:00-07:00"}
    points = [
        Point("a", {"data": "fine", "user_id": "u", **made}),
        Point("b", {"data": "no owner", **made}),
        Point("c", {"data": "spaced", "user_id": "two words", **made}),
        Point("d", {"user_id": "u", **made}),
    ]
    entries = list(Mem0Source(points))
    assert [e.place for e in entries if isinstance(e.what, InvalidInput)] == [
        "memory b",
        "memory c",
        "memory d",
    ]
    assert "user_id: id 'two words'" in entries[2].what.message  # type: ignore[union-attr]


def test_an_app_is_an_id_where_it_can_be_one_and_metadata_elsewhere() -> None:
    made = {"data": "fine", "user_id": "u", "created_at": "2025-01-01T00:00:00-07:00"}
    apps = ("mail", "two words", 5, None)
    points = [Point(str(i), {**made, "app_id": app, "k": 1}) for i, app in enumerate(apps)]
    found = [entry.what.memory for entry in Mem0Source(points)]  # type: ignore[union-attr]
    assert [memory.scope for memory in found] == [Scope("u", app_id="mail"), *[Scope("u")] * 3]
    kept = [memory.metadata for memory in found]
    assert kept == [{"k": 1}, *({"k": 1, "app_id": app} for app in apps[1:])]


class _Harm:
    def __reduce__(self) -> Any:
        return print, ("harm",)


def test_a_pickle_that_would_run_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInput, match=r"builtins\.print, which is not loaded"):
        read_pickle(pickle.dumps(_Harm()))
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_pickle(b"\x80\x04junk")
    with pytest.raises(InvalidInput, match="cannot be read"):  # a known class is not called either
        read_pickle(
            b"cqdrant_client.http.models.models\nPointStruct\n(S'x'\ntR.", bags="qdrant_client"
        )
    shutil.copytree(STORES / "1.0.11" / "faiss", tmp_path / "faiss")
    (tmp_path / "faiss" / "mem0.pkl").write_bytes(pickle.dumps(({"a": _Harm()}, {})))
    with pytest.raises(ConfigError, match="it could do harm"):
        list(open_points(str(tmp_path / "faiss"), "mem0"))
    assert capsys.readouterr().out == ""


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are: mem0"):
        open_points(str(STORES / "2.2.1" / "qdrant"), "other")
    with pytest.raises(ConfigError, match="there are: mem0"):
        open_points(str(STORES / "2.2.1" / "faiss"), "other")
    with pytest.raises(ConfigError, match="no vector store"):
        open_points(str(tmp_path), "mem0")
    with pytest.raises(ConfigError, match="cannot open"):
        Mem0History(tmp_path / "absent.db")
    sqlite3.connect(tmp_path / "empty.db").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(ConfigError, match="no such table: history"):
        Mem0History(tmp_path / "empty.db")


def test_a_store_is_read_and_not_touched(tmp_path: Path) -> None:
    shutil.copytree(STORES / "2.2.1", tmp_path / "m")
    before = {p: p.read_bytes() for p in sorted((tmp_path / "m").rglob("*")) if p.is_file()}
    source = Mem0Source(
        open_points(str(tmp_path / "m" / "qdrant"), "mem0"), Mem0History(tmp_path / "m/qdrant.db")
    )
    assert len(list(source)) == 7
    assert {p: p.read_bytes() for p in sorted((tmp_path / "m").rglob("*")) if p.is_file()} == before


def test_a_qdrant_server_is_read_page_by_page() -> None:
    pages = {
        None: {"points": [{"id": "a", "payload": {"data": "1"}}], "next_page_offset": "b"},
        "b": {"points": [{"id": "b", "payload": None}], "next_page_offset": None},
    }

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/collections/mem0/points/scroll"
        return httpx.Response(200, json={"result": pages[json.loads(request.content)["offset"]]})

    points = QdrantServerPoints("http://q:6333", "mem0", transport=httpx.MockTransport(answer))
    assert list(points) == [Point("a", {"data": "1"}), Point("b", {})]
    broken = httpx.MockTransport(lambda request: httpx.Response(404, json={}))
    with pytest.raises(ConfigError, match="404"):
        list(QdrantServerPoints("http://q:6333", "none", transport=broken))


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_a_pgvector_table_is_read(backend: Any, database_url: str) -> None:
    url = database_url.replace("+psycopg", "")
    database = url.partition("@/")[2].partition("?")[0]
    # As mem0 makes it, but for the vectors, whose type is an extension and which are not read.
    backend.execute("CREATE TABLE mem0 (id UUID PRIMARY KEY, payload JSONB)", database)
    rows = "SELECT gen_random_uuid(), jsonb_build_object('data', n) FROM generate_series(1, 1200) n"
    backend.execute(f"INSERT INTO mem0 {rows}", database)
    points = list(open_points(url, "mem0"))
    assert sorted(point.payload["data"] for point in points) == list(range(1, 1201))
    assert len({point.id for point in points}) == 1200
    with pytest.raises(ConfigError, match="cannot read the table 'nothing'"):
        list(open_points(url, "nothing"))
    assert backend.execute("SELECT count(*) FROM mem0", database) == [(1200,)]


def test_pgvector_says_that_nobody_answers() -> None:
    with pytest.raises(ConfigError, match="cannot read the table"):
        list(open_points("postgresql://u:p@127.0.0.1:9/db", "mem0"))


async def test_an_expiration_date_ends_with_its_day_and_what_is_over_stays_away(
    place: Place,
) -> None:
    made = {"created_at": "2025-01-01T00:00:00+00:00", "user_id": "alice"}
    points = [
        Point("a", {"data": "later", "expiration_date": "2100-01-31", **made}),
        Point("b", {"data": "over", "expiration_date": "2025-01-31", **made}),
        Point("c", {"data": "ever", "expiration_date": "soon", **made}),
    ]
    report = await place.transfer.import_from(
        place.tenant, Mem0Source(points), ImportOptions(keep_ids=True)
    )
    assert (report.memories, report.deleted) == (2, 1)
    found = {memory.text: memory for memory in await place.all(Scope("alice"))}
    assert found["later"].expires_at == datetime(2100, 2, 1, tzinfo=UTC)
    assert found["later"].metadata is None
    assert (found["ever"].expires_at, found["ever"].metadata) == (
        None,
        {"expiration_date": "soon"},
    )
