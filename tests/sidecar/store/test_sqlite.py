"""What only SQLite does: pragmas, and plans that do not walk tables."""

from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Draft
from inferscale_sidecar.store.transfer_port import MovedMemory, PastVersion

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


async def test_truth_is_forced_to_disk_and_the_rest_is_not(database_url: str) -> None:
    database = Database(database_url)

    async def synchronous(**options: bool) -> int:
        async with database.write(**options) as conn:
            return int((await conn.exec_driver_sql("PRAGMA synchronous")).scalar() or 0)

    full, normal = 2, 1
    assert await synchronous() == full
    assert await synchronous(is_truth=False) == normal
    assert await synchronous() == full, "a pooled connection remembers"
    async with database.read() as conn:
        assert (await conn.exec_driver_sql("PRAGMA journal_mode")).scalar() == "wal"
        assert (await conn.exec_driver_sql("PRAGMA secure_delete")).scalar() == 1
    await database.close()


async def test_no_request_walks_through_a_tenant(store: SqlStore) -> None:
    """What one request costs must not grow with what other users have stored."""
    alice = Scope(user_id="alice")
    drafts = [Draft(f"text {i}", np.zeros(4, dtype=np.float32)) for i in range(50)]
    added = await store.add_memories("default", alice, drafts)
    statements: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, sql: str, parameters: Any, *_: Any) -> None:
        statements.append((sql, parameters))

    engine = store._db.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    await store.get_memories("default", [a.memory.id for a in added[:10]], fingerprint="e")
    await store.list_memories("default", alice, limit=10, before=40, fingerprint="e")
    await store.changes("default", alice, since=0)
    await store.history("default", added[0].memory.id)
    await store.add_memories("default", alice, drafts[:1], fingerprint="e")
    await store.delete_memory("default", added[0].memory.id)
    moved = [_moved(each.memory) for each in added[:3]]
    outcomes = await store.import_memories("default", moved, alias=str, restore=True)
    assert [outcome.fate for outcome in outcomes] == ["new", "unchanged", "unchanged"]
    event.remove(engine, "before_cursor_execute", note)

    # Parts of an index, beside the tenant, one of which each step must use.
    narrow = ("id=?", "scope_key=?", "num=?", "seq>?")
    async with store._db.read() as conn:
        for sql, parameters in statements:
            if not sql.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
                continue
            if sql.startswith("INSERT") and "SELECT" not in sql:
                continue
            plan = await conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters)
            for step in (row[3] for row in plan.fetchall()):
                # Banks are as many as engines.
                assert step == "SCAN banks" or not step.startswith("SCAN"), (step, sql)
                if step.startswith(("SEARCH memories ", "SEARCH memory_versions ")):
                    condition = step[step.index("(") :].replace("tenant_id=?", "")
                    assert any(part in condition for part in narrow), (step, sql)
                assert "LIMIT" not in sql or "TEMP B-TREE" not in step, (step, sql)


def _moved(memory: Memory) -> MovedMemory:
    first = PastVersion(1, "ADD", memory.text, memory.created_at)
    return MovedMemory(memory, (first,), np.zeros(4, dtype=np.float32))


async def test_what_is_not_a_database_is_refused(database_url: str) -> None:
    path = database_url.removeprefix("sqlite+aiosqlite:///")
    with open(path, "wb") as file:
        file.write(b"this is not a database" * 1000)
    broken = SqlStore(database_url)
    with pytest.raises(ConfigError, match="cannot open the database"):
        await broken.start()
    await broken.close()
