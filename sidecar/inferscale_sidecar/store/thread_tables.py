"""The tables of conversation threads. Migrations create them."""

from sqlalchemy import (
    JSON,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
)

from inferscale_sidecar.store.columns import (
    FOREIGN_ID,
    ID,
    PlainString,
    PlainText,
    Remark,
    RowNumber,
    UtcDateTime,
    metadata,
)

threads = Table(
    "threads",
    metadata,
    Column("num", RowNumber, primary_key=True, autoincrement=True),
    Column("id", FOREIGN_ID, nullable=False),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("user_id", FOREIGN_ID, nullable=False),
    Column("agent_id", FOREIGN_ID),
    Column("app_id", FOREIGN_ID),
    Column("metadata", JSON(none_as_null=True)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    UniqueConstraint("tenant_id", "id"),
    Index(None, "tenant_id", "user_id", "num"),
    Index(None, "tenant_id", "agent_id", "num"),
    Index(None, "tenant_id", "app_id", "num"),
    sqlite_autoincrement=True,
)

thread_messages = Table(
    "thread_messages",
    metadata,
    Column("num", RowNumber, primary_key=True, autoincrement=True),
    Column("id", ID, nullable=False, unique=True),
    Column("thread_num", RowNumber, ForeignKey("threads.num", ondelete="CASCADE"), nullable=False),
    Column("role", PlainString(64), nullable=False),
    Column("name", FOREIGN_ID),
    Column("content", PlainText, nullable=False),
    Column("metadata", JSON(none_as_null=True)),
    Column("said_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "thread_num", "num"),
    sqlite_autoincrement=True,
)

thread_summaries = Table(
    "thread_summaries",
    metadata,
    Column(
        "thread_num", RowNumber, ForeignKey("threads.num", ondelete="CASCADE"), primary_key=True
    ),
    Column("state", String(16), nullable=False),
    Column("text", PlainText),
    # Number of the last message that is in it, and how many are.
    Column("up_to", RowNumber, nullable=False),
    Column("num_messages", Integer, nullable=False),
    Column("error", Remark),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "state", "updated_at"),
)
