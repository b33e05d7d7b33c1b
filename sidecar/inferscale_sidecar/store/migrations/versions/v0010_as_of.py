"""Point-in-time reads: handles of a past moment, and when messages gave way to their facts."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("handles", sa.Column("as_of", sa.DateTime(timezone=True)))


def downgrade() -> None:
    # The old release would show such handles without the items that have changed since.
    for table in ("handle_items", "handle_blocks"):
        past = "(SELECT id FROM handles WHERE as_of IS NOT NULL)"
        op.execute(f"DELETE FROM {table} WHERE handle_id IN {past}")
    op.execute("DELETE FROM handles WHERE as_of IS NOT NULL")
    op.execute("DELETE FROM memory_versions WHERE event = 'EXTRACT'")
    op.drop_column("handles", "as_of")
