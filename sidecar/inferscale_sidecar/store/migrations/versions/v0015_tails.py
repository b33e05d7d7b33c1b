"""Tails of conversations: whose they are, and which scopes were forgotten a short while ago."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_IDS = ("user_id", "agent_id", "run_id", "app_id")


def upgrade() -> None:
    op.add_column("purges", sa.Column("tenant_id", sa.String(length=64)))
    for name in _IDS:
        op.add_column("purges", sa.Column(name, sa.String(length=256)))
        given = sa.text(f"{name} IS NOT NULL")
        op.create_index(
            f"ix_purges_tenant_id_{name}",
            "purges",
            ["tenant_id", name],
            sqlite_where=given,
            postgresql_where=given,
        )
    # Whose those are that there are already was not written down, so forgetting could not find
    # them: they go now.
    op.execute(
        "UPDATE purges SET created_at = CURRENT_TIMESTAMP WHERE created_at > CURRENT_TIMESTAMP"
    )
    op.create_table(
        "forgotten_scopes",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("scope_key", sa.String(length=64), nullable=False),
        sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name="fk_forgotten_scopes_tenant_id"
        ),
        sa.PrimaryKeyConstraint("tenant_id", "scope_key", name="pk_forgotten_scopes"),
    )
    op.create_index("ix_forgotten_scopes_forgotten_at", "forgotten_scopes", ["forgotten_at"])


def downgrade() -> None:
    op.drop_table("forgotten_scopes")
    for name in _IDS:
        op.drop_index(f"ix_purges_tenant_id_{name}", "purges")
        op.drop_column("purges", name)
    op.drop_column("purges", "tenant_id")
