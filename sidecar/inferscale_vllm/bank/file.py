"""The bank's file: who may open it, what it says about itself, and how it becomes smaller.

Owns the LMDB environment and the lock beside it. Invariants: a file of another model, layout or a
newer format is refused with the reason; only who is alone may empty, compact or replace the file,
and everyone else holds a shared lock for as long as it is open.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lmdb

from inferscale_vllm.bank.items import FORMAT

TABLES = ("headers", "kv", "retired", "tenants", "meta")
_LOCK_NAME, _DATA_NAME, _COPY_NAME = "bank.lock", "data.mdb", "compacting"
_EXTRA_BYTES = 2**20


class BankRefused(Exception):
    """The file cannot be used by who opens it; the sentence says why and what to do."""


class BankFile:
    """An open file. `tables`: LMDB's handles by name; `was_alone`: nobody else had it open.

    Args:
        path: its folder; made if missing.
        limit_bytes: most the file may grow to; 0: as big as it is (tools).
        fingerprint: namespace of who opens it; None: whatever is there (tools).

    Raises:
        BankRefused: it belongs to another model, or is of a newer format.
    """

    def __init__(self, path: Path, *, limit_bytes: int, fingerprint: str | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = os.open(path / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
        self._limit_bytes = limit_bytes
        self.is_alone = self.was_alone = self._take_alone()
        if not self.is_alone:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._open()
        try:
            self._check_format()
            if fingerprint is not None:
                self.claim("fingerprint", fingerprint, "made for another model or other weights")
        except BankRefused:
            self.close()
            raise

    def _take_alone(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(self.path / _COPY_NAME, ignore_errors=True)  # of a compaction that was killed
        return True

    def share(self) -> None:
        """Lets others open the file from now on; nothing that needs it alone may follow."""
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.is_alone = False

    def _map_bytes(self) -> int:
        """The limit; for a file above it (the limit was lowered) enough to evict and compact."""
        data = self.path / _DATA_NAME
        size = data.stat().st_size if data.exists() else 0
        if not self._limit_bytes or not self.is_alone or size <= self._limit_bytes:
            return self._limit_bytes
        return size + size // 16 + _EXTRA_BYTES

    def _open(self) -> None:
        # metasync=False: after a power cut the last transactions may be missing, never torn.
        self.env = lmdb.open(
            str(self.path),
            map_size=self._map_bytes(),
            max_dbs=len(TABLES),
            metasync=False,
            readahead=False,
            max_readers=512,
        )
        self.env.reader_check()  # readers that were killed would keep pages from being used again
        self.tables = {name: self.env.open_db(name.encode()) for name in TABLES}

    def _check_format(self) -> None:
        found = self.note("format")
        if found is None and self.is_alone and self._limit_bytes:
            with self.env.begin(write=True) as txn:
                for name in TABLES:  # a file from before formats had a number, or a new one
                    txn.drop(self.tables[name], delete=False)
                txn.put(b"format", json.dumps(FORMAT).encode(), db=self.tables["meta"])
        elif found is None or found > FORMAT:
            raise BankRefused(
                f"bank {self.path} has format {found}, this version reads {FORMAT}; "
                "upgrade inferscale-memory, or delete the folder (its content is rebuilt)"
            )

    def note(self, name: str) -> Any:
        """What the file says of itself under a name; None if nothing."""
        with self.env.begin() as txn:
            value = txn.get(name.encode(), db=self.tables["meta"])
        return None if value is None else json.loads(value)

    def write_note(self, name: str, value: Any) -> None:
        with self.env.begin(write=True) as txn:
            txn.put(name.encode(), json.dumps(value).encode(), db=self.tables["meta"])

    def claim(self, name: str, value: str | Mapping[str, Any], otherwise: str) -> None:
        """Writes a note the first time; later it must say the same.

        Raises:
            BankRefused: it says something else.
        """
        found = self.note(name)
        if found is None:
            self.write_note(name, value)
        elif found != value:
            raise BankRefused(
                f"bank {self.path} was {otherwise} ({found}, not {value}); "
                "point bank_dir elsewhere, or delete the folder (its content is rebuilt)"
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of the file that are or were in use: it never shrinks by itself."""
        return int((self.env.info()["last_pgno"] + 1) * self.env.stat()["psize"])

    def compact(self) -> int:
        """Writes the file anew without unused pages; returns how many bytes smaller it is.

        Safe at any moment: the new file takes the old one's place in one step.

        Raises:
            BankRefused: another process has the file open.
        """
        if not self.is_alone and not self._take_alone():
            raise BankRefused(
                f"bank {self.path} is in use; stop the engine, or let it compact at its next start"
            )
        self.is_alone = True
        before = self.size_bytes
        copy = self.path / _COPY_NAME
        copy.mkdir(exist_ok=True)
        self.env.copy(str(copy), compact=True)
        _sync(copy / _DATA_NAME)
        self.env.close()
        os.replace(copy / _DATA_NAME, self.path / _DATA_NAME)
        _sync(self.path)
        shutil.rmtree(copy)
        self._open()
        return before - self.size_bytes

    def close(self) -> None:
        self.env.close()
        os.close(self._lock)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
