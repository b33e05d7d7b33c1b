"""The tables of pinned blocks. Migrations create them.

Invariant: the text of a block stands in `blocks` and `block_versions` only; handles name versions.
"""

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.store.columns import (
    ID,
    PlainString,
    PlainText,
    RowNumber,
    UtcDateTime,
    metadata,
    scope_columns,
)

LABEL = PlainString(64)

blocks = Table(
    "blocks",
    metadata,
    Column("num", RowNumber, primary_key=True, autoincrement=True),
    Column("id", ID, nullable=False, unique=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("label", LABEL, nullable=False),
    Column("value", PlainText, nullable=False),
    Column("description", PlainText),
    Column("char_limit", Integer, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("metadata", JSON(none_as_null=True)),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "tenant_id", "id"),
    Index(None, "tenant_id", "num"),
    sqlite_autoincrement=True,
)

block_scopes = Table(
    "block_scopes",
    metadata,
    Column("block_id", ID, ForeignKey("blocks.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    *scope_columns(),
    Column("scope_key", String(64), nullable=False),
    # The block's own, repeated: in one scope a label names one block.
    Column("label", LABEL, nullable=False),
    PrimaryKeyConstraint("block_id", "scope_key"),
    UniqueConstraint("tenant_id", "scope_key", "label"),
    *(Index(None, "tenant_id", column) for column in SCOPE_IDS),
)

block_versions = Table(
    "block_versions",
    metadata,
    Column("block_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("event", String(8), nullable=False),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    # All three NULL once the block was deleted.
    Column("label", LABEL),
    Column("value", PlainText),
    Column("description", PlainText),
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("block_id", "version", "event"),
)

# Exact prefixes that the engine keeps and that hold the text of a block: they go with it.
block_prefixes = Table(
    "block_prefixes",
    metadata,
    Column("block_id", ID, ForeignKey("blocks.id", ondelete="CASCADE"), nullable=False),
    Column("fingerprint", String(128), nullable=False),
    Column("key", String(64), nullable=False),
    PrimaryKeyConstraint("block_id", "fingerprint", "key"),
)

handle_blocks = Table(
    "handle_blocks",
    metadata,
    Column("handle_id", ID, ForeignKey("handles.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("block_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    PrimaryKeyConstraint("handle_id", "position"),
    Index(None, "block_id"),
)
