"""The KV bank: encoded items on disk, memory-mapped, shared by an engine's processes. One file per
rank.

Owns the life of an item: put, promise, retire, evict, erase. Invariants: an item is either whole
(its checksum holds) or absent; a retired item is never promised again, and its bytes outlive the
promises that were made before; the file never grows beyond its limit.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import xxhash

from inferscale_vllm.bank.check import check_integrity
from inferscale_vllm.bank.evict import Budget
from inferscale_vllm.bank.file import BankFile
from inferscale_vllm.bank.items import PAGE_BYTES, ItemHeader
from inferscale_vllm.bank.promises import Promises, open_promises
from inferscale_vllm.bank.reader import BankReader
from inferscale_vllm.bank.room import Room
from inferscale_vllm.bank.stats import BankStats, stats_of

GRACE_S = 30.0
"""How long a deleted item's bytes stay, whether promised or not."""
RECHECK_S = 600.0
"""An item's checksum is verified at its first promise and again when the last check is this old."""
_SQUEEZES = (0, 0, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Part of the bank that is emptied for new items, attempt by attempt: what is free may be in pieces
too small for one of them. The second attempt may use the pages that the first one freed."""
_MIN_RESERVE_BYTES = 64 * PAGE_BYTES


class BankFull(Exception):
    """The items were not stored: what may be evicted does not make room for them."""


class Bank:
    """One rank's items. Safe for many processes; one process must open a path only once
    (`open_bank`).

    Args:
        path: its folder. Promises lie beside it, shared by the banks of all ranks.
        limit_bytes: most the file may grow to.
        fingerprint: namespace that the file must belong to; None: any.
        tenant_share: most of the bank that one tenant's items may take, 0 to 1.

    Raises:
        BankRefused: the file belongs to another model, or is of a newer format.
    """

    def __init__(
        self,
        path: Path,
        *,
        limit_bytes: int,
        fingerprint: str | None = None,
        tenant_share: float = 1.0,
    ) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        self._verified: dict[bytes, tuple[int, float]] = {}
        self.promises: Promises = open_promises(path.parent / "promises")
        reserve = max(limit_bytes // 16, _MIN_RESERVE_BYTES)
        self.budget = Budget(limit_bytes - reserve, tenant_share)
        self.file = BankFile(path, limit_bytes=limit_bytes, fingerprint=fingerprint)
        self._room = Room(self.file, self.promises, self.budget)
        self._start()

    def _start(self) -> None:
        """Obeys a limit that was lowered, while nobody else has the file open."""
        if self.file.is_alone and self.file.size_bytes > self._limit_bytes:
            self._room.make({})
            self.file.compact()
        self.file.share()
        if self.file.note("limit_bytes") != self._limit_bytes:
            self.file.write_note("limit_bytes", self._limit_bytes)

    def put(self, items: Mapping[str, tuple[ItemHeader, memoryview]]) -> None:
        """Stores all items in one durable transaction: after it returns they survive `kill -9`.

        Evicts what was used least recently if there is no room.

        Args:
            items: key (64 hex digits) → header and KV bytes (`header.size_bytes` long).

        Raises:
            BankFull: nothing was stored.
        """
        now = time.time_ns()
        rows = {
            bytes.fromhex(key): (replace(header, written_ns=header.written_ns or now), kv)
            for key, (header, kv) in items.items()
        }
        headers = {raw: header for raw, (header, _) in rows.items()}
        for attempt, squeeze in enumerate(_SQUEEZES):
            if not self._room.make(headers, squeeze=squeeze):
                break
            if attempt:
                self._room.turn()
            try:
                return self._write(rows)
            except lmdb.MapFullError:
                self.file.env.reader_check()
        raise BankFull(
            f"bank {self.path} has no room in its {self._limit_bytes} bytes for {len(rows)} items "
            "without evicting what is promised; raise bank_size_bytes (or bank_tenant_share)"
        )

    def _write(self, rows: Mapping[bytes, tuple[ItemHeader, memoryview]]) -> None:
        tables = self.file.tables
        with self.file.env.begin(write=True) as txn:
            for raw, (header, kv) in rows.items():
                self._room.count(txn, self._record(txn, raw), sign=-1)
                txn.put(raw, header.packed(), db=tables["headers"])
                txn.put(raw, kv, db=tables["kv"])
                txn.delete(raw, db=tables["retired"])
                self._room.count(txn, header)

    def _record(self, txn: lmdb.Transaction, raw: bytes) -> ItemHeader | None:
        value = txn.get(raw, db=self.file.tables["headers"])
        return None if value is None else ItemHeader.unpack(value)

    def headers(self, keys: Sequence[str]) -> list[ItemHeader | None]:
        """Headers of live items, None for those absent, retired or unreadable."""
        with self.file.env.begin(buffers=True) as txn:
            found = [self._record(txn, bytes.fromhex(key)) for key in keys]
        return [header if header and not header.retired_ns else None for header in found]

    def is_intact(self, key: str, header: ItemHeader) -> bool:
        """Whether the stored KV has its header's size and checksum. Remembered for `RECHECK_S`.

        An item that was erased or replaced meanwhile is not broken.
        """
        raw = bytes.fromhex(key)
        seen = self._verified.get(raw)
        now = time.monotonic()
        if seen and seen[0] == header.checksum and now - seen[1] < RECHECK_S:
            return True
        with self.file.env.begin(buffers=True) as txn:
            current = self._record(txn, raw)
            kv = txn.get(raw, db=self.file.tables["kv"])
            if current is None:
                return kv is None
            if kv is None or len(kv) != current.size_bytes:
                return False
            intact = xxhash.xxh3_64_intdigest(kv) == current.checksum
        if intact:
            self._verified[raw] = (current.checksum, now)
        return intact

    @contextmanager
    def reading(self) -> Iterator[BankReader]:
        """A consistent view whose KV buffers point into the memory map: valid inside the block
        only."""
        with self.file.env.begin(buffers=True) as txn:
            yield BankReader(txn, self.file.tables)

    def retire(self, keys: Iterable[str]) -> int:
        """Takes items out of service at once. Their bytes go with a later `purge`. Returns how
        many."""
        return self._room.retire(bytes.fromhex(key) for key in keys)

    def purge(self, *, grace_s: float = GRACE_S) -> int:
        """Erases items that were retired more than `grace_s` seconds ago and are promised to
        nobody. Returns how many."""
        erased = self._room.purge(time.time_ns() - int(grace_s * 1e9))
        for raw in erased:
            self._verified.pop(raw, None)
        return len(erased)

    def keys(self) -> list[str]:
        """Keys of all items, retired ones included."""
        with self.file.env.begin() as txn, txn.cursor(db=self.file.tables["headers"]) as cursor:
            return [bytes(key).hex() for key in cursor.iternext(values=False)]

    def stats(self) -> BankStats:
        """Counts and sizes; reads only totals."""
        return stats_of(self.file, self._limit_bytes, self.budget.capacity_bytes)

    def compact(self) -> int:
        """Gives unused space back to the disk; returns how many bytes.

        Raises:
            BankRefused: another process has the bank open.
        """
        freed = self.file.compact()
        self.file.share()
        return freed

    def check_integrity(self) -> list[str]:
        """Every broken invariant, one sentence each; empty if all is well. Reads the whole bank."""
        return check_integrity(self.file)

    def close(self) -> None:
        self.file.close()


_open_banks: dict[Path, Bank] = {}
_open_lock = threading.Lock()


def open_bank(path: Path, **options: Any) -> Bank:
    """The process's one handle on the bank at `path`: LMDB forbids opening a file twice in a
    process. Options as of `Bank`; those of the first call count."""
    with _open_lock:
        bank = _open_banks.get(path)
        if bank is None:
            bank = _open_banks[path] = Bank(path, **options)
        return bank
