"""What an engine tells the world about itself: reports per request, the injection switch, checks,
counters.

Owns a small LMDB beside the bank, one per engine, written by the scheduler and the workers and read
by the control plane in the API server: three processes that share nothing else. Nothing here is
truth; it is lost without harm, so writes are not synced to disk.
"""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lmdb

MAX_REPORTS = 16_384
_MAP_BYTES = 64 * 2**20
_COUNTER = b"\x00next"


class EngineState:
    """Shared notes of one engine. A report is readable from the request's admission on."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._env = lmdb.open(
            str(path), map_size=_MAP_BYTES, max_dbs=4, sync=False, metasync=False, max_readers=512
        )
        self._reports = self._env.open_db(b"reports")
        self._ring = self._env.open_db(b"ring")
        self._notes = self._env.open_db(b"notes")

    def report(
        self, request_id: str, report: Mapping[str, Any], counters: Mapping[str, Any]
    ) -> None:
        """Stores or replaces the report of a request, and the counters that it changed.

        The oldest report beyond `MAX_REPORTS` is dropped.
        """
        raw = request_id.encode()
        with self._env.begin(write=True) as txn:
            txn.put(b"counters", json.dumps(counters).encode(), db=self._notes)
            if txn.get(raw, db=self._reports) is None:
                self._take_slot(txn, raw)
            txn.put(raw, json.dumps(report).encode(), db=self._reports)

    def _take_slot(self, txn: lmdb.Transaction, raw: bytes) -> None:
        number = int(txn.get(_COUNTER, b"0", db=self._ring))
        slot = b"%d" % (number % MAX_REPORTS)
        if (old := txn.get(slot, db=self._ring)) is not None:
            txn.delete(old, db=self._reports)
        txn.put(slot, raw, db=self._ring)
        txn.put(_COUNTER, b"%d" % (number + 1), db=self._ring)

    def get_report(self, request_id: str) -> dict[str, Any] | None:
        with self._env.begin() as txn:
            value = txn.get(request_id.encode(), db=self._reports)
        return None if value is None else json.loads(value)

    def note(self, name: str, value: Any) -> None:
        """Stores a named JSON value, e.g. the switch or the result of a check."""
        with self._env.begin(write=True) as txn:
            txn.put(name.encode(), json.dumps(value).encode(), db=self._notes)

    def get_note(self, name: str, default: Any = None) -> Any:
        with self._env.begin() as txn:
            value = txn.get(name.encode(), db=self._notes)
        return default if value is None else json.loads(value)

    def close(self) -> None:
        self._env.close()


_open_states: dict[Path, EngineState] = {}
_open_lock = threading.Lock()


def open_state(path: Path) -> EngineState:
    """The process's one handle on the state at `path` (LMDB's rule, as for banks)."""
    with _open_lock:
        state = _open_states.get(path)
        if state is None:
            state = _open_states[path] = EngineState(path)
        return state
