"""What of a document is embedded: without it, one that moves could not be embedded again."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("index_paths", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("documents", "index_paths")
