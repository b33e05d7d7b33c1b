"""Reads items out of a bank without copying them."""

from collections.abc import Mapping
from typing import Any

import lmdb

from inferscale_vllm.bank.items import ItemHeader


class BankReader:
    """KV bytes of items inside one read transaction."""

    def __init__(self, txn: lmdb.Transaction, tables: Mapping[str, Any]) -> None:
        self._txn = txn
        self._tables = tables

    def kv(self, key: str) -> memoryview | None:
        """The item's KV in the memory map, retired or not (a promise may precede its
        retirement)."""
        value = self._txn.get(bytes.fromhex(key), db=self._tables["kv"])
        return None if value is None else memoryview(value)

    def codec(self, key: str) -> str:
        """How that KV is stored."""
        value = self._txn.get(bytes.fromhex(key), db=self._tables["headers"])
        return "plain" if value is None else ItemHeader.codec_of(value)
