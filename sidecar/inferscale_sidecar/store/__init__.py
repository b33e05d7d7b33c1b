"""The truth: memories, versions, KV bookkeeping, handles, tenants. `MemoryStore` is the port."""

from inferscale_sidecar.store.base import MemoryStore
from inferscale_sidecar.store.sql import SqlStore
from inferscale_sidecar.store.sqlite import sqlite_url

__all__ = ["MemoryStore", "SqlStore", "sqlite_url"]
