"""Summaries of the older part of threads."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

RowNumber = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "thread_summaries",
        sa.Column("thread_num", RowNumber, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("up_to", RowNumber, nullable=False),
        sa.Column("num_messages", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_num"],
            ["threads.num"],
            name="fk_thread_summaries_thread_num",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("thread_num", name="pk_thread_summaries"),
    )
    columns = ["state", "updated_at"]
    op.create_index("ix_thread_summaries_state_updated_at", "thread_summaries", columns)


def downgrade() -> None:
    op.drop_table("thread_summaries")
