"""Expiry: until when a memory is there, and lists that are counted without reading their rows."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_IDS = ("user_id", "agent_id", "run_id")
_GONE = "(SELECT id FROM memories WHERE expires_at <= CURRENT_TIMESTAMP)"


def upgrade() -> None:
    op.add_column("memories", sa.Column("expires_at", sa.DateTime(timezone=True)))
    there = sa.text("expires_at IS NOT NULL")
    op.create_index(
        "ix_memories_expires_at",
        "memories",
        ["expires_at"],
        sqlite_where=there,
        postgresql_where=there,
    )
    for name in _IDS:
        op.drop_index(f"ix_memories_tenant_id_{name}_num", "memories")
        op.create_index(
            f"ix_memories_tenant_id_{name}_num_status_expires_at",
            "memories",
            ["tenant_id", name, "num", "status", "expires_at"],
        )


def downgrade() -> None:
    _remove_expired()
    for name in _IDS:
        op.drop_index(f"ix_memories_tenant_id_{name}_num_status_expires_at", "memories")
        op.create_index(f"ix_memories_tenant_id_{name}_num", "memories", ["tenant_id", name, "num"])
    op.drop_index("ix_memories_expires_at", "memories")
    op.drop_column("memories", "expires_at")


def _remove_expired() -> None:
    """The old schema has no way to say "expired": such rows would be found again."""
    behind = f"(SELECT kv_item_id FROM kv_item_contexts WHERE memory_id IN {_GONE})"
    doomed = f"memory_id IN {_GONE} OR id IN {behind}"
    op.execute(
        "INSERT INTO purges (fingerprint, key, created_at)"
        f" SELECT fingerprint, key, CURRENT_TIMESTAMP FROM kv_items WHERE {doomed}"
    )
    op.execute(f"DELETE FROM kv_items WHERE {doomed}")
    for table in ("embeddings", "memory_versions", "memory_sources", "builds", "handle_items"):
        op.execute(f"DELETE FROM {table} WHERE memory_id IN {_GONE}")
    op.execute(f"DELETE FROM memory_sources WHERE source_id IN {_GONE}")
    op.execute("DELETE FROM memories WHERE expires_at <= CURRENT_TIMESTAMP")
    op.execute("UPDATE memory_versions SET event = 'DELETE' WHERE event = 'EXPIRE'")
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    size = "length(CAST(text AS BLOB))" if is_sqlite else "octet_length(text)"
    its = "FROM memories WHERE memories.tenant_id = tenants.id"
    op.execute(
        f"UPDATE tenants SET num_memories = (SELECT count(*) {its}), "
        f"text_bytes = (SELECT coalesce(sum({size}), 0) {its})"
    )
