"""Banks by name: which are in use, and which were given up."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "banks",
        sa.Column("fingerprint", sa.String(length=128), nullable=False),
        sa.Column("seen_at", Time, nullable=False),
        sa.Column("given_up_at", Time),
        sa.PrimaryKeyConstraint("fingerprint", name="pk_banks"),
    )


def downgrade() -> None:
    # The old release knows the banks of a model by its fingerprint alone, and there may be several
    # now: it builds all items again, and every key that a bank holds is to be purged unless it
    # comes back into use.
    find = "instr" if op.get_bind().dialect.name == "sqlite" else "strpos"
    model = f"substr(fingerprint, 1, {find}(fingerprint, '@') - 1)"
    named = f"{find}(fingerprint, '@') > 0"
    op.execute(f"UPDATE purges SET fingerprint = {model} WHERE {named}")
    for table in ("kv_items", "block_prefixes"):
        op.execute(
            "INSERT INTO purges (fingerprint, key, created_at)"
            f" SELECT DISTINCT {model}, key, CURRENT_TIMESTAMP FROM {table} WHERE {named}"
        )
        op.execute(f"DELETE FROM {table} WHERE {named}")
    op.execute(f"DELETE FROM builds WHERE {named}")
    op.drop_table("banks")
