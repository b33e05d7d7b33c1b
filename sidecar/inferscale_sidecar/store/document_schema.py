"""The tables of the document store. Migrations create them, nothing else does.

Invariant: a document's text stands in `documents` only, its vectors go with it.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from inferscale_sidecar.store.columns import FOREIGN_ID, ID, RowNumber, UtcDateTime, metadata

documents = Table(
    "documents",
    metadata,
    Column("num", RowNumber, primary_key=True, autoincrement=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("user_id", FOREIGN_ID),
    # Digest of user, namespace and key: SQL holds two NULLs for different, uniqueness must not.
    Column("path_hash", String(64), nullable=False),
    Column("namespace", Text, nullable=False),  # each label with a period behind it
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),  # ASCII JSON, in the order of its fields
    # Paths of what the vectors are of; NULL if it is not found by meaning, or none were noted.
    Column("index_paths", JSON(none_as_null=True)),
    Column("ttl_s", Float(53)),
    Column("expires_at", UtcDateTime),
    Column("seq", BigInteger, nullable=False),  # larger = written later, within a tenant
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    UniqueConstraint("tenant_id", "path_hash"),
    Index(None, "tenant_id", "seq"),
    Index(None, "tenant_id", "user_id", "seq"),
    Index(None, "expires_at"),
)

document_vectors = Table(
    "document_vectors",
    metadata,
    Column("document_num", RowNumber, ForeignKey("documents.num", ondelete="CASCADE")),
    Column("position", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float32, little endian
    PrimaryKeyConstraint("document_num", "position"),
)
