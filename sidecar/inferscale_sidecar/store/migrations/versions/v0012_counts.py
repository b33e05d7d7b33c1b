"""What a tenant uses: blocks, threads, their messages and documents, too."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_OF_THREADS = "thread_messages JOIN threads ON threads.num = thread_messages.thread_num"
_ROWS = {
    "blocks": ("blocks", "blocks", "value"),
    "threads": ("threads", "threads", None),
    "messages": (_OF_THREADS, "threads", "content"),
    "documents": ("documents", "documents", "value"),
}
"""By kind: the rows, the table that says whose they are, and the column with their text."""


def upgrade() -> None:
    for kind, (rows, whose, _) in _ROWS.items():
        column = sa.Column(f"num_{kind}", sa.BigInteger(), server_default="0", nullable=False)
        op.add_column("tenants", column)
        its = f"FROM {rows} WHERE {whose}.tenant_id = tenants.id"
        op.execute(f"UPDATE tenants SET num_{kind} = (SELECT count(*) {its})")
    _add_text("+")


def downgrade() -> None:
    _add_text("-")
    for kind in reversed(_ROWS):
        op.drop_column("tenants", f"num_{kind}")
    names = ", ".join(f"'{kind}'" for kind in _ROWS)
    op.execute(f"DELETE FROM tenant_limits WHERE name IN ({names})")


def _add_text(sign: str) -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for rows, whose, text in _ROWS.values():
        if text is not None:
            size = f"length(CAST({text} AS BLOB))" if is_sqlite else f"octet_length({text})"
            total = f"SELECT coalesce(sum({size}), 0) FROM {rows}"
            its = f"{total} WHERE {whose}.tenant_id = tenants.id"
            op.execute(f"UPDATE tenants SET text_bytes = text_bytes {sign} ({its})")
