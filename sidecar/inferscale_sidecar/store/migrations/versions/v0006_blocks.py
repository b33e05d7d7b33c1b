"""Pinned blocks: their versions, what they are attached to, and their places in handles."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

RowNumber = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Time = sa.DateTime(timezone=True)
ID = sa.String(length=64)
FOREIGN_ID = sa.String(length=256)
LABEL = sa.String(length=64)


def upgrade() -> None:
    op.create_table(
        "blocks",
        sa.Column("num", RowNumber, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("label", LABEL, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("char_limit", sa.Integer(), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True)),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_blocks_tenant_id"),
        sa.PrimaryKeyConstraint("num", name="pk_blocks"),
        sa.UniqueConstraint("id", name="uq_blocks_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_blocks_tenant_id_id", "blocks", ["tenant_id", "id"])
    op.create_index("ix_blocks_tenant_id_num", "blocks", ["tenant_id", "num"])
    _create_scopes()
    op.create_table(
        "block_versions",
        sa.Column("block_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=8), nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("label", LABEL),
        sa.Column("value", sa.Text()),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_block_versions_tenant_id"),
        sa.PrimaryKeyConstraint("block_id", "version", "event", name="pk_block_versions"),
    )
    _create_derived()


def _create_scopes() -> None:
    op.create_table(
        "block_scopes",
        sa.Column("block_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("user_id", FOREIGN_ID),
        sa.Column("agent_id", FOREIGN_ID),
        sa.Column("run_id", FOREIGN_ID),
        sa.Column("scope_key", sa.String(length=64), nullable=False),
        sa.Column("label", LABEL, nullable=False),
        sa.ForeignKeyConstraint(
            ["block_id"], ["blocks.id"], name="fk_block_scopes_block_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_block_scopes_tenant_id"),
        sa.PrimaryKeyConstraint("block_id", "scope_key", name="pk_block_scopes"),
        sa.UniqueConstraint(
            "tenant_id", "scope_key", "label", name="uq_block_scopes_tenant_id_scope_key_label"
        ),
    )
    for column in ("user_id", "agent_id", "run_id"):
        name = f"ix_block_scopes_tenant_id_{column}"
        op.create_index(name, "block_scopes", ["tenant_id", column])


def _create_derived() -> None:
    op.create_table(
        "block_prefixes",
        sa.Column("block_id", ID, nullable=False),
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["block_id"], ["blocks.id"], name="fk_block_prefixes_block_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("block_id", "fingerprint", "key", name="pk_block_prefixes"),
    )
    op.create_table(
        "handle_blocks",
        sa.Column("handle_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("block_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["handle_id"], ["handles.id"], name="fk_handle_blocks_handle_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("handle_id", "position", name="pk_handle_blocks"),
    )
    op.create_index("ix_handle_blocks_block_id", "handle_blocks", ["block_id"])


def downgrade() -> None:
    # The exact prefixes that held the text of a block are not left behind in the bank.
    op.execute(
        "INSERT INTO purges (fingerprint, key, created_at)"
        " SELECT DISTINCT fingerprint, key, CURRENT_TIMESTAMP FROM block_prefixes"
    )
    for table in ("handle_blocks", "block_prefixes", "block_versions", "block_scopes", "blocks"):
        op.drop_table(table)
