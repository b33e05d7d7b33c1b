"""Extraction: the kind and status of a memory, its sources, and the queue of extractions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

Time = sa.DateTime(timezone=True)
ID = sa.String(length=64)


def upgrade() -> None:
    for column in (
        sa.Column("kind", sa.String(length=16), server_default="memory", nullable=False),
        sa.Column("status", sa.String(length=16), server_default="live", nullable=False),
        sa.Column("said_at", Time),
    ):
        op.add_column("memories", column)
    op.create_table(
        "memory_sources",
        sa.Column("memory_id", ID, nullable=False),
        sa.Column("source_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("memory_id", "source_id", name="pk_memory_sources"),
    )
    op.create_index("ix_memory_sources_source_id", "memory_sources", ["source_id"])
    _create_extractions()


def _create_extractions() -> None:
    op.create_table(
        "extractions",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("user_id", sa.String(length=256)),
        sa.Column("agent_id", sa.String(length=256)),
        sa.Column("run_id", sa.String(length=256)),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True)),
        sa.Column("facts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("dropped", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error_code", sa.String(length=64)),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_extractions_tenant_id"),
        sa.PrimaryKeyConstraint("id", name="pk_extractions"),
    )
    op.create_index("ix_extractions_state_created_at", "extractions", ["state", "created_at"])
    op.create_table(
        "extraction_turns",
        sa.Column("extraction_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("memory_id", ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["extraction_id"],
            ["extractions.id"],
            name="fk_extraction_turns_extraction_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("extraction_id", "position", name="pk_extraction_turns"),
    )
    op.create_index("ix_extraction_turns_memory_id", "extraction_turns", ["memory_id"])


def downgrade() -> None:
    # The old schema has no way to say "kept, but not found": such rows would be found again.
    op.execute(
        "DELETE FROM embeddings WHERE memory_id IN"
        " (SELECT id FROM memories WHERE status = 'source')"
    )
    op.execute(
        "DELETE FROM memory_versions WHERE memory_id IN"
        " (SELECT id FROM memories WHERE status = 'source')"
    )
    op.execute("DELETE FROM memories WHERE status = 'source'")
    for table in ("extraction_turns", "extractions", "memory_sources"):
        op.drop_table(table)
    for column in ("said_at", "status", "kind"):
        op.drop_column("memories", column)
