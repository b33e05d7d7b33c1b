"""The tables of extractions: which messages wait for their facts. Migrations create them."""

from sqlalchemy import (
    JSON,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
)

from inferscale_sidecar.store.columns import ID, Remark, UtcDateTime, metadata, scope_columns

extractions = Table(
    "extractions",
    metadata,
    Column("id", ID, primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    *scope_columns(),
    Column("state", String(16), nullable=False),
    Column("metadata", JSON(none_as_null=True)),
    Column("facts", Integer, nullable=False, server_default="0"),
    Column("dropped", Integer, nullable=False, server_default="0"),
    Column("error_code", String(64)),
    Column("error", Remark),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "state", "created_at"),
)

extraction_turns = Table(
    "extraction_turns",
    metadata,
    Column("extraction_id", ID, ForeignKey("extractions.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("memory_id", ID, nullable=False),
    PrimaryKeyConstraint("extraction_id", "position"),
    Index(None, "memory_id"),
)
