"""Other processes: many writers on one file, and a process that is killed while it writes."""

import asyncio
import signal
import subprocess
import sys
import time

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore

ALICE = Scope(user_id="alice")

WRITER = """
import asyncio, sys
import numpy as np
from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import Draft

async def main(url, texts, batch):
    store = SqlStore(url)
    await store.start()
    vector = np.full(4, 0.5, dtype=np.float32)
    number = 0
    for text in texts:
        names = [f"{text}-{number + i}" if batch > 1 else text for i in range(batch)]
        drafts = [Draft(name, vector) for name in names]
        await store.add_memories("default", Scope(user_id="alice"), drafts)
        print(names[-1], flush=True)
        number += batch
    await store.close()

def forever():
    while True:
        yield "m"

texts = ["the same fact"] * 5 if sys.argv[2] == "same" else forever()
asyncio.run(main(sys.argv[1], texts, 1 if sys.argv[2] == "same" else 3))
"""


def _start(url: str, what: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, url, what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_eight_processes_adding_one_fact_make_one_row(
    store: SqlStore, database_url: str
) -> None:
    writers = [_start(database_url, "same") for _ in range(8)]
    codes = [await asyncio.to_thread(writer.wait, 60) for writer in writers]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    assert codes == [0] * 8
    page = await store.list_memories("default", ALICE, limit=10)
    assert [memory.text for memory in page.memories] == ["the same fact"]


def test_what_was_acknowledged_before_kill_is_there_after(database_url: str) -> None:
    writer = _start(database_url, "many")
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline().strip() for _ in range(20)]
    time.sleep(0.005)  # into the middle of some write
    writer.send_signal(signal.SIGKILL)
    acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    writer.stdout.close()
    writer.wait()
    texts, violations = asyncio.run(_read(database_url))
    assert violations == []
    assert set(acknowledged) <= texts
    assert len(texts) % 3 == 0, "a batch was torn"
    assert {f"m-{i}" for i in range(len(texts))} == texts


async def _read(url: str) -> tuple[set[str], list[str]]:
    store = SqlStore(url)
    await store.start()
    page = await store.list_memories("default", ALICE, limit=1_000_000)
    violations = await store.check_integrity()
    await store.close()
    return {memory.text for memory in page.memories}, violations
