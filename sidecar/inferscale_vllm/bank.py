"""The KV bank: encoded items on disk, memory-mapped, shared by an engine's processes. One file per
rank.

Owns the format of an item and its life: put, promise, retire, purge. Invariants: an item is either
    whole
(its checksum holds) or absent; a retired item is never promised again, and its bytes outlive the
promises that were made before (`GRACE_S`), because scheduler and worker read in different
processes.
"""

import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import xxhash

GRACE_S = 30.0
"""How long a retired item's bytes stay. A promise is kept within one engine step, far below a
second."""
RECHECK_S = 600.0
"""An item's checksum is verified at its first promise and again when the last check is this old."""
_HEADER = struct.Struct(
    "<4sIIIqQ16s"
)  # magic, num_tokens, position, kv bytes, retired ns, checksum, lora
_MAGIC = b"ISK1"


@dataclass(frozen=True)
class ItemHeader:
    """What the scheduler needs to know of an item, without its KV.

    Attributes:
        num_tokens: length T of the item.
        position: position that its first token was computed at (K is stored post-RoPE).
        size_bytes: bytes of its KV, laid out `[T, L, 2, H, D]` in the cache dtype.
        checksum: xxh3-64 of the KV bytes.
        token_ids: int32 [T].
    """

    num_tokens: int
    position: int
    size_bytes: int
    checksum: int
    token_ids: np.ndarray

    def packed(self) -> bytes:
        head = _HEADER.pack(
            _MAGIC, self.num_tokens, self.position, self.size_bytes, 0, self.checksum, b""
        )
        return head + self.token_ids.astype(np.int32).tobytes()


@dataclass(frozen=True)
class BankStats:
    items: int
    size_bytes: int
    limit_bytes: int


class BankFull(Exception):
    """The bank's size limit is reached: the items were not stored. Raise `bank_size_bytes` or
    purge."""


class Bank:
    """One rank's items. Safe for many processes; one process must open a path only once
    (`open_bank`)."""

    def __init__(self, path: Path, *, limit_bytes: int) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._limit_bytes = limit_bytes
        self._verified: dict[bytes, tuple[int, float]] = {}
        # metasync=False: after a power cut the last transactions may be missing, never torn.
        self._env = lmdb.open(
            str(path),
            map_size=limit_bytes,
            max_dbs=4,
            metasync=False,
            readahead=False,
            max_readers=512,
        )
        self._headers = self._env.open_db(b"headers")
        self._kv = self._env.open_db(b"kv")
        self._retired = self._env.open_db(b"retired")

    def put(self, items: Mapping[str, tuple[ItemHeader, memoryview]]) -> None:
        """Stores all items in one durable transaction: after it returns they survive `kill -9`.

        Args:
            items: key (64 hex digits) → header and KV bytes (`header.size_bytes` long).

        Raises:
            BankFull: nothing was stored.
        """
        try:
            with self._env.begin(write=True) as txn:
                for key, (header, kv) in items.items():
                    raw = bytes.fromhex(key)
                    txn.put(raw, header.packed(), db=self._headers)
                    txn.put(raw, kv, db=self._kv)
                    txn.delete(raw, db=self._retired)
        except lmdb.MapFullError as error:
            raise BankFull(
                f"bank {self.path} is full at {self._limit_bytes} bytes; raise bank_size_bytes"
            ) from error

    def headers(self, keys: Sequence[str]) -> list[ItemHeader | None]:
        """Headers of live items, None for those absent, retired or unreadable."""
        with self._env.begin(buffers=True) as txn:
            return [self._header(txn, bytes.fromhex(key)) for key in keys]

    def _header(self, txn: lmdb.Transaction, raw: bytes) -> ItemHeader | None:
        value = txn.get(raw, db=self._headers)
        if value is None or len(value) < _HEADER.size:
            return None
        magic, num_tokens, position, size_bytes, retired_ns, checksum, _ = _HEADER.unpack_from(
            value
        )
        if magic != _MAGIC or retired_ns or len(value) != _HEADER.size + 4 * num_tokens:
            return None
        token_ids = np.frombuffer(value, np.int32, offset=_HEADER.size).copy()
        return ItemHeader(num_tokens, position, size_bytes, checksum, token_ids)

    def is_intact(self, key: str, header: ItemHeader) -> bool:
        """Whether the stored KV has the header's size and checksum. Remembered for `RECHECK_S`."""
        raw = bytes.fromhex(key)
        seen = self._verified.get(raw)
        now = time.monotonic()
        if seen and seen[0] == header.checksum and now - seen[1] < RECHECK_S:
            return True
        with self._env.begin(buffers=True) as txn:
            kv = txn.get(raw, db=self._kv)
            if kv is None or len(kv) != header.size_bytes:
                return False
            intact = xxhash.xxh3_64_intdigest(kv) == header.checksum
        if intact:
            self._verified[raw] = (header.checksum, now)
        return intact

    @contextmanager
    def reading(self) -> Iterator["BankReader"]:
        """A consistent view whose KV buffers point into the memory map: valid inside the block
        only."""
        with self._env.begin(buffers=True) as txn:
            yield BankReader(txn, self._kv)

    def retire(self, keys: Iterable[str]) -> int:
        """Takes items out of service at once. Their bytes go with a later `purge`. Returns how
        many."""
        count = 0
        stamp = struct.pack("<q", time.time_ns())
        with self._env.begin(write=True) as txn:
            for key in keys:
                raw = bytes.fromhex(key)
                value = txn.get(raw, db=self._headers)
                if value is None or txn.get(raw, db=self._retired) is not None:
                    continue
                fields = _HEADER.unpack_from(value)
                head = _HEADER.pack(*fields[:4], time.time_ns(), *fields[5:])
                txn.put(raw, head + bytes(value[_HEADER.size :]), db=self._headers)
                txn.put(raw, stamp, db=self._retired)
                count += 1
        return count

    def purge(self, *, grace_s: float = GRACE_S) -> int:
        """Erases items that were retired more than `grace_s` seconds ago. Returns how many."""
        limit_ns = time.time_ns() - int(grace_s * 1e9)
        with self._env.begin() as txn:
            due = self._due(txn, limit_ns)
        if not due:  # most calls: never wait for another process's write transaction
            return 0
        with self._env.begin(write=True) as txn:
            due = self._due(txn, limit_ns)
            for raw in due:
                for table in (self._headers, self._kv, self._retired):
                    txn.delete(raw, db=table)
                self._verified.pop(raw, None)
        return len(due)

    def _due(self, txn: lmdb.Transaction, limit_ns: int) -> list[bytes]:
        with txn.cursor(db=self._retired) as cursor:
            return [bytes(k) for k, v in cursor if struct.unpack("<q", v)[0] <= limit_ns]

    def keys(self) -> list[str]:
        """Keys of all items, retired ones included."""
        with self._env.begin() as txn, txn.cursor(db=self._headers) as cursor:
            return [bytes(key).hex() for key in cursor.iternext(values=False)]

    def stats(self) -> BankStats:
        """Items, and bytes in use of the file's limit."""
        info = self._env.info()
        page = self._env.stat()["psize"]
        with self._env.begin() as txn:
            items = txn.stat(self._headers)["entries"]
        return BankStats(items, (info["last_pgno"] + 1) * page, self._limit_bytes)

    def check_integrity(self) -> list[str]:
        """Every broken invariant, one sentence each; empty if all is well. Reads the whole bank."""
        problems: list[str] = []
        with self._env.begin(buffers=True) as txn:
            for raw, _ in txn.cursor(db=self._headers):
                key = bytes(raw).hex()
                header = self._header(txn, bytes(raw))
                kv = txn.get(bytes(raw), db=self._kv)
                if kv is None:
                    problems.append(f"item {key} has a header but no KV")
                elif header and xxhash.xxh3_64_intdigest(kv) != header.checksum:
                    problems.append(f"item {key} fails its checksum")
            headers, kv_items = txn.stat(self._headers), txn.stat(self._kv)
            if headers["entries"] != kv_items["entries"]:
                problems.append(f"{headers['entries']} headers but {kv_items['entries']} KV blobs")
        return problems

    def close(self) -> None:
        self._env.close()


class BankReader:
    """KV bytes of items inside one read transaction."""

    def __init__(self, txn: lmdb.Transaction, kv: Any) -> None:
        self._txn = txn
        self._kv = kv

    def kv(self, key: str) -> memoryview | None:
        """The item's KV in the memory map, retired or not (a promise may precede its
        retirement)."""
        value = self._txn.get(bytes.fromhex(key), db=self._kv)
        return None if value is None else memoryview(value)


_open_banks: dict[Path, Bank] = {}
_open_lock = threading.Lock()


def open_bank(path: Path, *, limit_bytes: int) -> Bank:
    """The process's one handle on the bank at `path`: LMDB forbids opening a file twice in a
    process."""
    with _open_lock:
        bank = _open_banks.get(path)
        if bank is None:
            bank = _open_banks[path] = Bank(path, limit_bytes=limit_bytes)
        return bank


def checksum(kv: memoryview | bytes) -> int:
    """xxh3-64 of an item's KV bytes."""
    return xxhash.xxh3_64_intdigest(kv)
