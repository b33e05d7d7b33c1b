"""A process that is killed between any two statements of a write: all of the write, or nothing.

A script prepares a database, and then does the same write over and over, each time in a process of
its own that kills itself one statement later than the one before, until one of them is done.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore, sqlite_url
from inferscale_sidecar.store.document_port import Owner

ALICE = Scope(user_id="alice")
BEFORE = {"first", "second"}
KEPT = {"hello", "old 1", "old 2"}
AFTER: dict[str, tuple[set[str], set[str]]] = {
    "add": ({"first", "second", "third", "fourth"}, KEPT),
    "update": ({"changed", "second"}, KEPT),
    "delete": ({"second"}, KEPT),
    "delete_scope": (set(), set()),
    "say": (BEFORE, KEPT | {"how", "are you"}),
    "unsay": (BEFORE, KEPT - {"hello"}),
    "put": (BEFORE, {"hello", "new 1", "new 3"}),
}
"""By write: the memories afterwards, and messages and documents."""

SCRIPT = """
import asyncio, json, os, shutil, signal, sys
from pathlib import Path
import numpy as np
from sqlalchemy import event
from sqlalchemy.engine import Engine
from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.store import SqlStore, sqlite_url
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.records import Draft
from inferscale_sidecar.store.thread_port import MessageDraft

folder, write = Path(sys.argv[1]), sys.argv[2]
ALICE, VECTOR = Scope(user_id="alice"), np.full(4, 0.5, dtype=np.float32)

async def add(store, *texts):
    return await store.add_memories("default", ALICE, [Draft(text, VECTOR) for text in texts])

async def say(store, *texts):
    return await store.add_messages("default", "t", [MessageDraft("user", text) for text in texts])

async def put(store, **values):
    drafts = {(("a",), key): DocumentDraft({"text": text}) if text else None
              for key, text in values.items()}
    await store.write_documents(Owner("default", "alice"), drafts)

async def prepare():
    store = SqlStore(sqlite_url(folder / "start.db"))
    await store.start()
    first, second = [each.memory.id for each in await add(store, "first", "second")]
    await store.put_kv_items([
        KvItem(first, 1, "default", "e", "key 1", 1, ()),
        KvItem(second, 1, "default", "e", "key 2", 1, (first,)),
    ])
    await store.create_thread("default", "t", ALICE, None)
    hello = (await say(store, "hello"))[0].id
    await put(store, k1="old 1", k2="old 2")
    await store.close()
    return f"{first} {hello}"

async def change(path, ids, arm):
    first, hello = ids.split()
    store = SqlStore(sqlite_url(path))
    await store.start()
    arm()
    if write == "add":
        await add(store, "third", "fourth")
    if write == "update":
        options = {"vector": VECTOR, "metadata": {"a": 1}, "keep_metadata": False}
        await store.update_memory("default", first, text="changed", **options)
    if write == "delete":
        await store.delete_memory("default", first)
    if write == "delete_scope":
        await store.delete_scope("default", ALICE)
    if write == "say":
        await say(store, "how", "are you")
    if write == "unsay":
        await store.delete_message("default", "t", hello)
    if write == "put":
        await put(store, k1="new 1", k2=None, k3="new 3")

def run(path, first, deadly):
    passed = 0
    def statement(*_):
        nonlocal passed
        passed += 1
        if passed == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
    def arm():
        event.listen(Engine, "before_cursor_execute", statement)
        event.listen(Engine, "commit", statement)
    asyncio.run(change(path, first, arm))
    os._exit(0)

def in_child(work, *given):
    child = os.fork()
    if child == 0:
        try:
            work(*given)
        finally:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def prepared():
    (folder / "first").write_text(asyncio.run(prepare()))
    os._exit(0)

assert in_child(prepared) == 0
first, codes = (folder / "first").read_text(), []
while not codes or codes[-1] == -signal.SIGKILL:
    path = folder / f"{len(codes)}.db"
    shutil.copyfile(folder / "start.db", path)
    codes.append(in_child(run, path, first, len(codes) + 1))
print(json.dumps(codes))
"""


async def _read(
    path: Path,
) -> tuple[tuple[set[str], set[str]], list[str], set[str], list[str]]:
    """Texts, contradictions, keys that the bank should hold, keys to purge."""
    store = SqlStore(sqlite_url(path))
    await store.start()
    page = await store.list_memories("default", ALICE, limit=100)
    violations = await store.check_integrity()
    keys = {key async for some in store.all_keys("e") for key in some}
    purges = await store.take_purges("e", limit=100)
    said = await store.list_messages("default", "t", limit=100)
    kept = {message.content for message in said.messages} if said else set()
    documents = store.scan_documents(Owner("default", "alice"), ())
    kept |= {document.value["text"] async for document in documents}
    await store.close()
    return ({memory.text for memory in page.memories}, kept), violations, keys, purges


@pytest.mark.parametrize("write", AFTER)
def test_a_write_is_whole_or_did_not_happen(tmp_path: Path, write: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), write]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *killed, last = json.loads(done.stdout)
    assert len(killed) >= 4, "too few statements: where were they?"
    assert last == 0
    seen = []
    for number in range(len(killed) + 1):
        texts, violations, keys, purges = asyncio.run(_read(tmp_path / f"{number}.db"))
        assert violations == [], number
        assert texts in ((BEFORE, KEPT), AFTER[write]), number
        seen.append(texts)
        # A key is wanted, or to be purged: the bank loses nothing, and keeps nothing.
        assert keys | set(purges) == {"key 1", "key 2"}
        assert not keys & set(purges)
        is_untouched = texts == (BEFORE, KEPT) or write in ("add", "say", "unsay", "put")
        assert (keys == {"key 1", "key 2"}) == is_untouched
    assert seen[0] == (BEFORE, KEPT) and seen[-1] == AFTER[write]
