"""The KV bank (`store.py`) and its parts: records, file, promises, eviction, reading, checks."""

from inferscale_vllm.bank.file import BankFile, BankRefused
from inferscale_vllm.bank.items import ItemHeader, checksum, tenant_of
from inferscale_vllm.bank.promises import Promises, UseLog
from inferscale_vllm.bank.reader import BankReader
from inferscale_vllm.bank.stats import BankStats
from inferscale_vllm.bank.store import Bank, BankFull, open_bank

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
