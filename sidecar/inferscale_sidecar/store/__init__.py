"""The truth: memories, versions, KV bookkeeping, handles, tenants. `MemoryStore` is the port."""

from inferscale_sidecar.store.base import MemoryStore
from inferscale_sidecar.store.database import sqlite_url
from inferscale_sidecar.store.sql import SqlStore

__all__ = ["MemoryStore", "SqlStore", "sqlite_url"]
