"""Supersession: which memory made another one untrue."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("memories", sa.Column("superseded_by", sa.String(length=64)))


def downgrade() -> None:
    # The old schema has no way to say "kept, but not found": such rows would be found again.
    gone = "(SELECT id FROM memories WHERE status = 'superseded')"
    op.execute(f"DELETE FROM embeddings WHERE memory_id IN {gone}")
    op.execute(f"DELETE FROM memory_versions WHERE memory_id IN {gone}")
    op.execute(f"DELETE FROM memory_sources WHERE memory_id IN {gone}")
    op.execute("DELETE FROM memories WHERE status = 'superseded'")
    op.drop_column("memories", "superseded_by")
