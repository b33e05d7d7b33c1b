"""The tables of what has to leave the banks. Migrations create them, nothing else does."""

from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, String, Table, text

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.store.columns import ID, RowNumber, UtcDateTime, metadata, scope_columns

purges = Table(
    "purges",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("fingerprint", String(128), nullable=False),
    Column("key", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),  # for a tail, when it is due
    # Whose conversation it is the tail of; NULL in all other rows.
    Column("tenant_id", ID),
    *scope_columns(),
    Index(None, "fingerprint", "key"),
    *(
        Index(
            None,
            "tenant_id",
            name,
            sqlite_where=text(f"{name} IS NOT NULL"),
            postgresql_where=text(f"{name} IS NOT NULL"),
        )
        for name in SCOPE_IDS
    ),
)

forgotten_scopes = Table(
    "forgotten_scopes",
    metadata,
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("scope_key", String(64), nullable=False),  # a digest: names nobody who was forgotten
    Column("forgotten_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "scope_key"),
    Index(None, "forgotten_at"),
)
