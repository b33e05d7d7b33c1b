"""The tables of handles. Migrations create them, nothing else does.

Invariant: no text stands here; what a handle shows is joined from the memories.
"""

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table

from inferscale_sidecar.store.columns import ID, UtcDateTime, metadata, scope_columns

handles = Table(
    "handles",
    metadata,
    Column("id", ID, primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    *scope_columns(),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("as_of", UtcDateTime),  # the moment that it shows; NULL: the one in which it was made
    Index(None, "expires_at"),
)

handle_items = Table(
    "handle_items",
    metadata,
    Column("handle_id", ID, ForeignKey("handles.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("memory_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("score", Float(53), nullable=False),
    PrimaryKeyConstraint("handle_id", "position"),
    Index(None, "memory_id"),
)
