"""The tables. Owns names, types and constraints; migrations create them, nothing else does.

Invariant: every row that belongs to a tenant carries its `tenant_id`, and the text of a memory
stands in `memories` and `memory_versions` only, so that deleting it is two statements.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.store.columns import (
    FOREIGN_ID,
    ID,
    PlainString,
    PlainText,
    Remark,
    RowNumber,
    UtcDateTime,
    scope_columns,
)
from inferscale_sidecar.store.columns import metadata as metadata
from inferscale_sidecar.store.document_schema import documents as documents
from inferscale_sidecar.store.extraction_tables import extraction_turns as extraction_turns
from inferscale_sidecar.store.extraction_tables import extractions as extractions
from inferscale_sidecar.store.handle_schema import handle_items as handle_items
from inferscale_sidecar.store.handle_schema import handles as handles
from inferscale_sidecar.store.purge_tables import forgotten_scopes as forgotten_scopes
from inferscale_sidecar.store.purge_tables import purges as purges

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

tenants = Table(
    "tenants",
    metadata,
    Column("id", ID, primary_key=True),
    Column("name", PlainString(256), nullable=False, unique=True),
    Column("salt", LargeBinary(32), nullable=False),
    # Counts the tenant's writes in commit order: readers catch up from the number they know.
    Column("change_seq", BigInteger, nullable=False, server_default="0"),
    # What it keeps, counted in the transactions that change it.
    *(
        Column(name, BigInteger, nullable=False, server_default="0")
        for name in ("num_memories", "num_blocks", "num_threads", "num_messages", "num_documents")
    ),
    Column("text_bytes", BigInteger, nullable=False, server_default="0"),
    Column("created_at", UtcDateTime, nullable=False),
)

tenant_limits = Table(
    "tenant_limits",
    metadata,
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("value", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "name"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", ID, primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("name", PlainString(256), nullable=False),
    Column("prefix", String(16), nullable=False),
    Column("key_hash", String(64), nullable=False, unique=True),
    Column("scopes", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
)

memories = Table(
    "memories",
    metadata,
    Column("num", RowNumber, primary_key=True, autoincrement=True),
    Column("id", ID, nullable=False, unique=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    *scope_columns(),
    Column("owner", PlainString(272), nullable=False),
    Column("kind", String(16), nullable=False, server_default="memory"),
    Column("status", String(16), nullable=False, server_default="live"),
    # Digest of all ids: SQL holds two NULLs for different, uniqueness must not.
    Column("scope_key", String(64), nullable=False),
    Column("text", PlainText, nullable=False),
    # Of what is found, the text's; of what is only kept, one that cannot stand in a new text's way.
    Column("text_hash", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("role", PlainString(64)),
    Column("actor_id", FOREIGN_ID),
    Column("said_at", UtcDateTime),
    Column("superseded_by", ID),
    Column("expires_at", UtcDateTime),  # from then on it is not there, and the sweep removes it
    Column("metadata", JSON(none_as_null=True)),
    Column("seq", BigInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    UniqueConstraint("tenant_id", "scope_key", "text_hash"),
    # Every query names the tenant: without this one, a look-up by id would walk all of a tenant.
    Index(None, "tenant_id", "id"),
    # By seq to catch up with changes; by num to page through, and to count without the rows.
    *(
        Index(None, "tenant_id", column, *order)
        for column in SCOPE_IDS
        for order in (("seq",), ("num", "status", "expires_at"))
    ),
    Index(None, "tenant_id", "owner", "num"),
    Index(
        None,
        "expires_at",
        sqlite_where=text("expires_at IS NOT NULL"),
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
    sqlite_autoincrement=True,  # a deleted row's number is never given to another
)

memory_versions = Table(
    "memory_versions",
    metadata,
    Column("memory_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("event", String(8), nullable=False),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("text", PlainText),  # NULL once the memory was deleted
    Column("seq", BigInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("memory_id", "version", "event"),
    Index(None, "tenant_id", "event", "seq"),
)

memory_sources = Table(
    "memory_sources",
    metadata,
    Column("memory_id", ID, nullable=False),
    Column("source_id", ID, nullable=False),
    PrimaryKeyConstraint("memory_id", "source_id"),
    Index(None, "source_id"),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("memory_id", ID, primary_key=True),
    Column("vector", LargeBinary, nullable=False),  # float32, little endian
)

banks = Table(
    "banks",
    metadata,
    Column("fingerprint", String(128), primary_key=True),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("given_up_at", UtcDateTime),
)

kv_items = Table(
    "kv_items",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("fingerprint", String(128), nullable=False),
    Column("memory_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("key", String(64), nullable=False),
    Column("num_tokens", Integer, nullable=False),
    UniqueConstraint("memory_id", "version", "fingerprint"),
    # Not unique: equal texts behind equal neighbours have one KV, whichever memory they belong to.
    Index(None, "fingerprint", "key"),
)

kv_item_contexts = Table(
    "kv_item_contexts",
    metadata,
    Column("kv_item_id", RowNumber, ForeignKey("kv_items.id", ondelete="CASCADE"), nullable=False),
    Column("memory_id", ID, nullable=False),
    PrimaryKeyConstraint("memory_id", "kv_item_id"),
    Index(None, "kv_item_id"),
)

builds = Table(
    "builds",
    metadata,
    Column("memory_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("fingerprint", String(128), nullable=False),
    Column("state", String(16), nullable=False),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("error", Remark),
    Column("updated_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("memory_id", "version", "fingerprint"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("key", PlainString(256), nullable=False),
    Column("request_hash", String(64), nullable=False),
    Column("result", JSON, nullable=False),  # ids and events, never text
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("tenant_id", "key"),
)
