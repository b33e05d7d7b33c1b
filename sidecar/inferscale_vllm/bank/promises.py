"""Promises and last uses: what the scheduler and the workers must both know of items.

Owns a small LMDB beside the banks of all ranks. Nothing in it outlives its use, so writes are not
synced. How a promise is kept although scheduler and evictor are different processes:

    scheduler:  write the promise, then look whether the item is live     (both, or no promise)
    evictor:    take the item out of service, then look for promises, then erase what has none

Whichever comes second sees the first. A promise has an end, so a process that dies frees its items.
"""

import struct
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import lmdb

PROMISE_S = 60.0
"""How long a promise holds unless it is renewed or taken back."""
_MAX_PROMISE_NS = 3_600 * 10**9
"""A promise with more than this left was made before the machine was restarted."""
_MAP_BYTES = 256 * 2**20
_TIME = struct.Struct("<q")
_KEY_BYTES = 32


class Promises:
    """One engine's or several engines' promises on the banks in one folder."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._env = lmdb.open(
            str(path), map_size=_MAP_BYTES, max_dbs=2, sync=False, metasync=False, max_readers=512
        )
        self._promised = self._env.open_db(b"promised")
        self._used = self._env.open_db(b"used")

    def make(self, holder: bytes, keys: Iterable[str], *, seconds: float = PROMISE_S) -> None:
        """Promises items to a holder from now on; replaces what was promised to it before.

        The promise is good for those items only that are found live *after* this call.
        """
        until = time.monotonic_ns() + int(seconds * 1e9)
        raws = b"".join(bytes.fromhex(key) for key in keys)
        with self._env.begin(write=True) as txn:
            txn.put(holder, _TIME.pack(until) + raws, db=self._promised)

    def take_back(self, holder: bytes) -> None:
        """The holder needs its items no more."""
        with self._env.begin(write=True) as txn:
            txn.delete(holder, db=self._promised)

    def promised(self) -> set[bytes]:
        """Raw keys of all items promised to anyone now."""
        now, found, over = time.monotonic_ns(), set[bytes](), list[bytes]()
        with self._env.begin() as txn, txn.cursor(db=self._promised) as cursor:
            for holder, value in cursor:
                if _is_over(value, now):
                    over.append(holder)
                    continue
                at = range(_TIME.size, len(value), _KEY_BYTES)
                found.update(value[i : i + _KEY_BYTES] for i in at)
        if over:
            self._drop_over(over, now)
        return found

    def _drop_over(self, holders: list[bytes], now: int) -> None:
        with self._env.begin(write=True) as txn:
            for holder in holders:
                value = txn.get(holder, db=self._promised)
                if value is not None and _is_over(value, now):
                    txn.delete(holder, db=self._promised)

    def note_uses(self, uses: Mapping[bytes, int]) -> None:
        """Records when items (raw keys) were used last, Unix time in ns. Many at once: cheap."""
        with self._env.begin(write=True) as txn:
            for raw, used_ns in uses.items():
                txn.put(raw, _TIME.pack(used_ns), db=self._used)

    def last_uses(self) -> dict[bytes, int]:
        """Last use by raw key, of the items that were ever used."""
        with self._env.begin() as txn, txn.cursor(db=self._used) as cursor:
            return {raw: _TIME.unpack(value)[0] for raw, value in cursor}

    def forget(self, raws: Iterable[bytes]) -> None:
        """These items are erased."""
        with self._env.begin(write=True) as txn:
            for raw in raws:
                txn.delete(raw, db=self._used)


def _is_over(value: bytes, now: int) -> bool:
    return not 0 <= _TIME.unpack_from(value)[0] - now <= _MAX_PROMISE_NS


class UseLog:
    """Collects uses and records them now and then: no write per read.

    Args:
        promises: where to.
        every_s: how old what is not recorded yet may get.
    """

    def __init__(self, promises: Promises, *, every_s: float = 5.0) -> None:
        self._promises, self._every_s = promises, every_s
        self._waiting: dict[bytes, int] = {}
        self._next = 0.0

    def add(self, keys: Iterable[str]) -> None:
        now = time.time_ns()
        self._waiting.update((bytes.fromhex(key), now) for key in keys)

    def flush_if_due(self) -> None:
        """Costs nothing unless there is something old enough to record."""
        now = time.monotonic()
        if not self._waiting or now < self._next:
            return
        self._next = now + self._every_s
        waiting, self._waiting = self._waiting, {}
        self._promises.note_uses(waiting)


_open: dict[Path, Promises] = {}
_lock = threading.Lock()


def open_promises(path: Path) -> Promises:
    """The process's one handle on `path` (LMDB forbids a second one)."""
    with _lock:
        if path not in _open:
            _open[path] = Promises(path)
        return _open[path]
