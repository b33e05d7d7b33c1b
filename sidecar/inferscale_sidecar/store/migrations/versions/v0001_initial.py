"""The first schema: tenants, memories and their versions, embeddings, KV, handles.

Written out, never derived from `schema.py`: that file moves on, this one must not.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Time = sa.DateTime(timezone=True)
RowNumber = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "builds",
        sa.Column("memory_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("updated_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("memory_id", "version", "fingerprint", name="pk_builds"),
    )
    op.create_table(
        "embeddings",
        sa.Column("memory_id", sa.String(length=64), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("memory_id", name="pk_embeddings"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "purges",
        sa.Column("id", RowNumber, autoincrement=True, nullable=False),
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_purges"),
    )
    op.create_index("ix_purges_fingerprint_key", "purges", ["fingerprint", "key"])
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("salt", sa.LargeBinary(length=32), nullable=False),
        sa.Column("change_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
        sa.UniqueConstraint("name", name="uq_tenants_name"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=64), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("revoked_at", Time),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_api_keys_tenant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
    )
    op.create_table(
        "handles",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=256)),
        sa.Column("agent_id", sa.String(length=256)),
        sa.Column("run_id", sa.String(length=256)),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("expires_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_handles_tenant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_handles"),
    )
    op.create_index("ix_handles_expires_at", "handles", ["expires_at"])
    op.create_table(
        "idempotency",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_idempotency_tenant_id"),
        sa.PrimaryKeyConstraint("tenant_id", "key", name="pk_idempotency"),
    )
    op.create_table(
        "kv_items",
        sa.Column("id", RowNumber, autoincrement=True, nullable=False),
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("num_tokens", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_kv_items_tenant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_kv_items"),
        sa.UniqueConstraint(
            "memory_id", "version", "fingerprint", name="uq_kv_items_memory_id_version_fingerprint"
        ),
    )
    op.create_index("ix_kv_items_fingerprint_key", "kv_items", ["fingerprint", "key"])
    op.create_table(
        "memories",
        sa.Column("num", RowNumber, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=256)),
        sa.Column("agent_id", sa.String(length=256)),
        sa.Column("run_id", sa.String(length=256)),
        sa.Column("owner", sa.String(length=272), nullable=False),
        sa.Column("scope_key", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=64)),
        sa.Column("actor_id", sa.String(length=256)),
        sa.Column("metadata", sa.JSON(none_as_null=True)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_memories_tenant_id"),
        sa.PrimaryKeyConstraint("num", name="pk_memories"),
        sa.UniqueConstraint("id", name="uq_memories_id"),
        sa.UniqueConstraint(
            "tenant_id", "scope_key", "text_hash", name="uq_memories_tenant_id_scope_key_text_hash"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_memories_tenant_id_agent_id_num", "memories", ["tenant_id", "agent_id", "num"]
    )
    op.create_index(
        "ix_memories_tenant_id_agent_id_seq", "memories", ["tenant_id", "agent_id", "seq"]
    )
    op.create_index("ix_memories_tenant_id_id", "memories", ["tenant_id", "id"])
    op.create_index("ix_memories_tenant_id_owner_num", "memories", ["tenant_id", "owner", "num"])
    op.create_index("ix_memories_tenant_id_run_id_num", "memories", ["tenant_id", "run_id", "num"])
    op.create_index("ix_memories_tenant_id_run_id_seq", "memories", ["tenant_id", "run_id", "seq"])
    op.create_index(
        "ix_memories_tenant_id_user_id_num", "memories", ["tenant_id", "user_id", "num"]
    )
    op.create_index(
        "ix_memories_tenant_id_user_id_seq", "memories", ["tenant_id", "user_id", "seq"]
    )
    op.create_table(
        "memory_versions",
        sa.Column("memory_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=8), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_memory_versions_tenant_id"),
        sa.PrimaryKeyConstraint("memory_id", "version", "event", name="pk_memory_versions"),
    )
    op.create_index(
        "ix_memory_versions_tenant_id_event_seq", "memory_versions", ["tenant_id", "event", "seq"]
    )
    op.create_table(
        "handle_items",
        sa.Column("handle_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("memory_id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(precision=53), nullable=False),
        sa.ForeignKeyConstraint(
            ["handle_id"], ["handles.id"], name="fk_handle_items_handle_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("handle_id", "position", name="pk_handle_items"),
    )
    op.create_index("ix_handle_items_memory_id", "handle_items", ["memory_id"])
    op.create_table(
        "kv_item_contexts",
        sa.Column("kv_item_id", RowNumber, nullable=False),
        sa.Column("memory_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["kv_item_id"],
            ["kv_items.id"],
            name="fk_kv_item_contexts_kv_item_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("memory_id", "kv_item_id", name="pk_kv_item_contexts"),
    )
    op.create_index("ix_kv_item_contexts_kv_item_id", "kv_item_contexts", ["kv_item_id"])


def downgrade() -> None:
    for table in (
        "kv_item_contexts",
        "handle_items",
        "memory_versions",
        "memories",
        "kv_items",
        "idempotency",
        "handles",
        "api_keys",
        "tenants",
        "purges",
        "meta",
        "embeddings",
        "builds",
    ):
        op.drop_table(table)
