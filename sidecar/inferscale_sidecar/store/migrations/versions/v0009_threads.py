"""Conversation threads and their messages, word for word."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

RowNumber = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Time = sa.DateTime(timezone=True)
FOREIGN_ID = sa.String(length=256)


def upgrade() -> None:
    op.create_table(
        "threads",
        sa.Column("num", RowNumber, autoincrement=True, nullable=False),
        sa.Column("id", FOREIGN_ID, nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", FOREIGN_ID, nullable=False),
        sa.Column("agent_id", FOREIGN_ID),
        sa.Column("metadata", sa.JSON(none_as_null=True)),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_threads_tenant_id"),
        sa.PrimaryKeyConstraint("num", name="pk_threads"),
        sa.UniqueConstraint("tenant_id", "id", name="uq_threads_tenant_id_id"),
        sqlite_autoincrement=True,
    )
    for column in ("user_id", "agent_id"):
        name = f"ix_threads_tenant_id_{column}_num"
        op.create_index(name, "threads", ["tenant_id", column, "num"])
    op.create_table(
        "thread_messages",
        sa.Column("num", RowNumber, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("thread_num", RowNumber, nullable=False),
        sa.Column("role", sa.String(length=64), nullable=False),
        sa.Column("name", FOREIGN_ID),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True)),
        sa.Column("said_at", Time),
        sa.Column("created_at", Time, nullable=False),
        sa.ForeignKeyConstraint(
            ["thread_num"],
            ["threads.num"],
            name="fk_thread_messages_thread_num",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("num", name="pk_thread_messages"),
        sa.UniqueConstraint("id", name="uq_thread_messages_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_thread_messages_thread_num_num", "thread_messages", ["thread_num", "num"])


def downgrade() -> None:
    op.drop_table("thread_messages")
    op.drop_table("threads")
