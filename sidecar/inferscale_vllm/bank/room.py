"""Making room: takes items out of service, looks for promises, erases, and keeps the counts.

Owns the order of those steps (see `promises.py`), each of them one transaction, so that a process
killed between two leaves nothing worse than retired items, which the next purge erases.
"""

import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import lmdb

from inferscale_vllm.bank.evict import Budget, Resident, victims
from inferscale_vllm.bank.file import BankFile
from inferscale_vllm.bank.items import Count, ItemHeader
from inferscale_vllm.bank.promises import Promises

_STAMP = struct.Struct("<q")
_YIELD_EVERY = 64


class Room:
    """The space of one bank.

    Args:
        file: the open file.
        promises: who needs which items now.
        budget: what the bank may hold.
    """

    def __init__(self, file: BankFile, promises: Promises, budget: Budget) -> None:
        self._file, self._promises, self._budget = file, promises, budget

    def make(self, new: Mapping[bytes, ItemHeader], *, squeeze: float = 0.0) -> bool:
        """Evicts so that new items fit; whether they do now.

        Args:
            new: headers by raw key; an item that they replace makes room itself.
            squeeze: part of the capacity to leave empty besides.
        """
        needed: dict[bytes, int] = {}
        for header in new.values():
            needed[header.tenant] = needed.get(header.tenant, 0) + header.cost_bytes
        budget = replace(
            self._budget, capacity_bytes=int(self._budget.capacity_bytes * (1 - squeeze))
        )
        if self._fits(needed, budget):
            return True
        promised = self._promises.promised()
        residents = [r for r in self._residents() if r.raw not in new]
        chosen = victims(residents, needed, budget, promised=promised)
        if chosen is None:
            return False
        self.retire(item.raw for item in chosen)
        kept = self._promises.promised()  # made between the choice and the retirement
        self._erase([item.raw for item in chosen if item.raw not in kept], is_eviction=True)
        return not any(item.raw in kept for item in chosen) or self._fits(needed, budget)

    def _fits(self, needed: Mapping[bytes, int], budget: Budget) -> bool:
        with self._file.env.begin() as txn, txn.cursor(db=self._file.tables["tenants"]) as cursor:
            held = {tenant: Count.unpack(value).size_bytes for tenant, value in cursor}
        own = (held.get(tenant, 0) + size for tenant, size in needed.items())
        if any(size > budget.tenant_bytes for size in own):
            return False
        return sum(held.values()) + sum(needed.values()) <= budget.capacity_bytes

    def _residents(self) -> list[Resident]:
        used, found = self._promises.last_uses(), []
        with self._file.env.begin() as txn, txn.cursor(db=self._file.tables["headers"]) as cursor:
            for number, (raw, value) in enumerate(cursor):
                if number % _YIELD_EVERY == 0:
                    time.sleep(0)  # the engine's thread wants the interpreter between its kernels
                header = ItemHeader.unpack(value)
                if header is None:
                    continue
                last = 0 if header.retired_ns else max(used.get(raw, 0), header.written_ns)
                found.append(Resident(raw, header.tenant, header.cost_bytes, last))
        return found

    def retire(self, raws: Iterable[bytes]) -> int:
        """Takes items out of service; returns how many were in it."""
        count, now = 0, time.time_ns()
        tables = self._file.tables
        with self._file.env.begin(write=True) as txn:
            for raw in raws:
                value = txn.get(raw, db=tables["headers"])
                header = None if value is None else ItemHeader.unpack(value)
                if header is None or header.retired_ns:
                    continue
                txn.put(raw, header.retired(now).packed(), db=tables["headers"])
                txn.put(raw, _STAMP.pack(now), db=tables["retired"])
                count += 1
        return count

    def purge(self, limit_ns: int) -> list[bytes]:
        """Erases what was retired before `limit_ns` and is promised to nobody; returns which."""
        with self._file.env.begin() as txn, txn.cursor(db=self._file.tables["retired"]) as cursor:
            due = [bytes(raw) for raw, at in cursor if _STAMP.unpack(at)[0] <= limit_ns]
        if not due:  # most calls: never wait for another process's write transaction
            return []
        promised = self._promises.promised()
        return self._erase([raw for raw in due if raw not in promised])

    def _erase(self, raws: list[bytes], *, is_eviction: bool = False) -> list[bytes]:
        """Erases those of the items that are (still) retired."""
        tables, erased, gone = self._file.tables, [], Count()
        with self._file.env.begin(write=True) as txn:
            for raw in raws:
                if txn.get(raw, db=tables["retired"]) is None:
                    continue  # built again meanwhile
                header = ItemHeader.unpack(txn.get(raw, db=tables["headers"]) or b"")
                for name in ("headers", "kv", "retired"):
                    txn.delete(raw, db=tables[name])
                self.count(txn, header, sign=-1)
                gone = gone.plus(header) if header else gone
                erased.append(raw)
            if is_eviction and erased:
                before = Count.unpack(txn.get(b"evicted", db=tables["meta"]))
                total = Count(before.items + gone.items, before.size_bytes + gone.size_bytes)
                txn.put(b"evicted", total.packed(), db=tables["meta"])
        self._promises.forget(erased)
        return erased

    def count(self, txn: lmdb.Transaction, header: ItemHeader | None, *, sign: int = 1) -> None:
        """Adds an item to its tenant's count, or takes it away."""
        if header is None:
            return
        table = self._file.tables["tenants"]
        count = Count.unpack(txn.get(header.tenant, db=table)).plus(header, sign)
        if count.items:
            txn.put(header.tenant, count.packed(), db=table)
        else:
            txn.delete(header.tenant, db=table)

    def turn(self) -> None:
        """Begins the next transaction: pages that one freed can be used by the one after next."""
        with self._file.env.begin(write=True) as txn:
            number = int(txn.get(b"turn", b"0", db=self._file.tables["meta"])) + 1
            txn.put(b"turn", b"%d" % number, db=self._file.tables["meta"])
