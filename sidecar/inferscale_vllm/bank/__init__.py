"""The KV bank (`store.py`) and its parts: records, file, promises, eviction, checks."""

from inferscale_vllm.bank.file import BankFile, BankRefused
from inferscale_vllm.bank.items import ItemHeader, checksum, tenant_of
from inferscale_vllm.bank.promises import Promises, UseLog
from inferscale_vllm.bank.store import Bank, BankFull, BankReader, BankStats, open_bank

__all__ = [
    "Bank",
    "BankFile",
    "BankFull",
    "BankReader",
    "BankRefused",
    "BankStats",
    "ItemHeader",
    "Promises",
    "UseLog",
    "checksum",
    "open_bank",
    "tenant_of",
]
