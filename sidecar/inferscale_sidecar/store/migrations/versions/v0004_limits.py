"""Limits: what a tenant may use, and what it uses."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenant_limits",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_tenant_limits_tenant_id"),
        sa.PrimaryKeyConstraint("tenant_id", "name", name="pk_tenant_limits"),
    )
    for name in ("num_memories", "text_bytes"):
        column = sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)
        op.add_column("tenants", column)
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    size = "length(CAST(text AS BLOB))" if is_sqlite else "octet_length(text)"
    its = "FROM memories WHERE memories.tenant_id = tenants.id"
    op.execute(
        f"UPDATE tenants SET num_memories = (SELECT count(*) {its}), "
        f"text_bytes = (SELECT coalesce(sum({size}), 0) {its})"
    )


def downgrade() -> None:
    for name in ("text_bytes", "num_memories"):
        op.drop_column("tenants", name)
    op.drop_table("tenant_limits")
