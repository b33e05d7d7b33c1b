"""The service benchmark asks both arms the same, and fills the sidecar with a valid export."""

import io
import statistics
from collections import Counter
from typing import Any

from benchmarks.service.measure import WARM_UP, Plan, run
from benchmarks.service.sidecar_arm import _lines

from inferscale.protocol.transfer import Header
from inferscale_sidecar.service.transfer_file import ExportFile
from inferscale_sidecar.service.transfer_lines import write_line
from inferscale_sidecar.store.transfer_port import MovedMemory


class Arm:
    """Notes what it is asked; each answer takes one millisecond more than the last."""

    def __init__(self, heard: list[tuple[str, Any]]) -> None:
        self.heard = heard
        self.filled: Counter[str] = Counter()
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(self, op: str, **arguments: Any) -> tuple[float, Any]:
        self.calls.append((op, arguments))
        self.heard.append((op, arguments.get("query") or arguments.get("text")))
        return float(len(self.calls)), 0 if op == "count" else 1.0

    def fill(self, users: Any, *more: Any) -> None:
        for user, texts in users if len(more) == 1 else [(users, more[0])]:
            self.filled[user] += len(texts)


def test_both_arms_are_asked_the_same_in_turns_with_the_same_memories() -> None:
    heard: list[tuple[str, Any]] = []
    ours, mem0 = Arm(heard), Arm(heard)
    plan = Plan(sizes=(600, 800), samples=4, one_user=50)
    rows = run(ours, mem0, plan, seed=1, mem0_limit=10**9)  # type: ignore[arg-type]
    assert ours.filled == mem0.filled
    assert (ours.filled["measured"], ours.filled["large"]) == (500, 50)
    assert sum(n for user, n in ours.filled.items() if user.startswith("other")) == 300
    searched = [what for op, what in heard if op == "search" and what != "who?"]
    assert all(searched.count(what) in (1, 2) for what in searched)  # 1: the first search
    ops = {(row["op"], row["system"], row["memories"]) for row in rows}
    assert {("search", "mem0", 800), ("recall", "inferscale", 600)} <= ops
    assert ("recall", "mem0", 600) not in ops
    assert len({tuple(row) for row in rows}) == 1, "a table needs the same columns in each row"
    add = next(row for row in rows if row["op"] == "add")
    assert add["samples"] == 4
    times = [at for at, (op, _) in enumerate(ours.calls, 1) if op == "add"][WARM_UP:][:4]
    assert add["p50_ms"] == statistics.median(times)


def test_what_fills_the_sidecar_is_an_export() -> None:
    header = write_line(Header(tenant="default", embedder="e"))[:-1]
    content = b"".join(_lines(header, [("a", ["one", "two"]), ("b", ["three"])], 1))
    entries = [entry.what for entry in ExportFile(io.BytesIO(content))]
    assert [e.memory.text for e in entries if isinstance(e, MovedMemory)] == ["one", "two", "three"]
