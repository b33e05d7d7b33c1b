"""Apps: a fourth id beside user, agent and run, in every table that has the other three."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_INDEXES = {
    "memories": (("seq",), ("num", "status", "expires_at")),
    "handles": (),
    "extractions": (),
    "block_scopes": ((),),
    "threads": (("num",),),
}
"""By table: what stands behind tenant and app in its indexes."""

_APPS = "(SELECT id FROM memories WHERE app_id IS NOT NULL)"
_ONLY_APPS = (
    "(SELECT block_id FROM block_scopes WHERE app_id IS NOT NULL AND block_id NOT IN"
    " (SELECT block_id FROM block_scopes WHERE app_id IS NULL))"
)
_COUNTED = {
    "memories": ("memories", "memories", "text"),
    "blocks": ("blocks", "blocks", "value"),
    "threads": ("threads", "threads", None),
    "messages": (
        "thread_messages JOIN threads ON threads.num = thread_messages.thread_num",
        "threads",
        "content",
    ),
    "documents": ("documents", "documents", "value"),
}
"""By kind: the rows, the table that says whose they are, and the column with their text."""


def upgrade() -> None:
    for table, indexes in _INDEXES.items():
        op.add_column(table, sa.Column("app_id", sa.String(length=256)))
        for columns in indexes:
            op.create_index(_name(table, columns), table, ["tenant_id", "app_id", *columns])


def downgrade() -> None:
    # The old release cannot tell an app's memory from one of everybody's: what was said in one
    # would be found, and shown, in all.
    _remove_memories()
    _remove_blocks()
    for table in ("threads", "handles", "extractions"):  # the rest of them follows
        op.execute(f"DELETE FROM {table} WHERE app_id IS NOT NULL")
    _count_again()
    for table, indexes in _INDEXES.items():
        for columns in indexes:
            op.drop_index(_name(table, columns), table)
        op.drop_column(table, "app_id")


def _name(table: str, columns: tuple[str, ...]) -> str:
    return "_".join(["ix", table, "tenant_id", "app_id", *columns])


def _remove_memories() -> None:
    """With their KV, and that of the items encoded behind them."""
    behind = f"(SELECT kv_item_id FROM kv_item_contexts WHERE memory_id IN {_APPS})"
    doomed = f"memory_id IN {_APPS} OR id IN {behind}"
    op.execute(
        "INSERT INTO purges (fingerprint, key, created_at)"
        f" SELECT fingerprint, key, CURRENT_TIMESTAMP FROM kv_items WHERE {doomed}"
    )
    op.execute(f"DELETE FROM kv_items WHERE {doomed}")
    for table in ("embeddings", "memory_versions", "memory_sources", "builds", "handle_items"):
        op.execute(f"DELETE FROM {table} WHERE memory_id IN {_APPS}")
    op.execute(f"DELETE FROM memory_sources WHERE source_id IN {_APPS}")
    op.execute("DELETE FROM memories WHERE app_id IS NOT NULL")


def _remove_blocks() -> None:
    """Those that only apps show, with what the engine keeps of them; the others are detached."""
    op.execute(
        "INSERT INTO purges (fingerprint, key, created_at)"
        " SELECT DISTINCT fingerprint, key, CURRENT_TIMESTAMP FROM block_prefixes"
        f" WHERE block_id IN {_ONLY_APPS}"
    )
    for table in ("handle_blocks", "block_versions"):
        op.execute(f"DELETE FROM {table} WHERE block_id IN {_ONLY_APPS}")
    op.execute(f"DELETE FROM blocks WHERE id IN {_ONLY_APPS}")  # the rest of them follows
    op.execute("DELETE FROM block_scopes WHERE app_id IS NOT NULL")


def _count_again() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    sizes = []
    for kind, (rows, whose, text) in _COUNTED.items():
        its = f"FROM {rows} WHERE {whose}.tenant_id = tenants.id"
        op.execute(f"UPDATE tenants SET num_{kind} = (SELECT count(*) {its})")
        if text is not None:
            size = f"length(CAST({text} AS BLOB))" if is_sqlite else f"octet_length({text})"
            sizes.append(f"(SELECT coalesce(sum({size}), 0) {its})")
    op.execute(f"UPDATE tenants SET text_bytes = {' + '.join(sizes)}")
