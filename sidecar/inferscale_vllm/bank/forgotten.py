"""What was deleted, in the order in which it was: how every scheduler on these banks hears of it.

Owns a small LMDB beside the banks of all ranks. Only what is in vLLM's prefix cache depends on it,
and that dies with its engine, so writes are not synced. It keeps the latest `MAX_ENTRIES` entries;
a reader that is further behind is told that it is, and must forget everything.
"""

import struct
import threading
from collections.abc import Iterable
from pathlib import Path

import lmdb

MAX_ENTRIES = 1_024
ENTRY_TEXTS = 500
"""Most names in one entry."""
_MAP_BYTES = 128 * 2**20
_NUMBER = struct.Struct(">Q")  # big-endian: LMDB's order is the numbers'
_EVERYTHING = b"*"


class ForgottenLog:
    """Names of deleted texts and keys of deleted items, entry by entry.

    Args:
        path: its folder; made if missing.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._env = lmdb.open(
            str(path), map_size=_MAP_BYTES, sync=False, metasync=False, max_readers=512
        )

    @property
    def last(self) -> int:
        """Number of the latest entry; 0: there was none yet. A few microseconds."""
        with self._env.begin() as txn:
            return _last(txn)

    def add(self, texts: Iterable[str]) -> None:
        """These were deleted. Schedulers see it before they look at their next request."""
        names = list(texts)
        some = (names[at : at + ENTRY_TEXTS] for at in range(0, len(names), ENTRY_TEXTS))
        self._append(["\n".join(names).encode() for names in some])

    def add_everything(self) -> None:
        """All that there is was deleted."""
        self._append([_EVERYTHING])

    def _append(self, rows: list[bytes]) -> None:
        if not rows:
            return
        with self._env.begin(write=True) as txn:
            last = _last(txn)
            for number, row in enumerate(rows, last + 1):
                txn.put(_NUMBER.pack(number), row)
                if number > MAX_ENTRIES:
                    txn.delete(_NUMBER.pack(number - MAX_ENTRIES))

    def since(self, number: int) -> list[str] | None:
        """What was deleted after entry `number`; None: everything, as far as is known."""
        found: list[str] = []
        with self._env.begin() as txn:
            for at in range(number + 1, _last(txn) + 1):
                row = txn.get(_NUMBER.pack(at))
                if row is None or row == _EVERYTHING:
                    return None
                found += row.decode().split("\n")
        return found

    def close(self) -> None:
        self._env.close()


def _last(txn: lmdb.Transaction) -> int:
    with txn.cursor() as cursor:
        return int(_NUMBER.unpack(cursor.key())[0]) if cursor.last() else 0


_open: dict[Path, ForgottenLog] = {}
_lock = threading.Lock()


def open_forgotten(path: Path) -> ForgottenLog:
    """The process's one handle on `path` (LMDB forbids a second one)."""
    with _lock:
        if path not in _open:
            _open[path] = ForgottenLog(path)
        return _open[path]
