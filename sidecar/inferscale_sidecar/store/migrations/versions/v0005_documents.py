"""The document store: JSON objects under a namespace and a key, and their vectors."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Time = sa.DateTime(timezone=True)
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "documents",
        sa.Column("num", Number, autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=256)),
        sa.Column("path_hash", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("ttl_s", sa.Float(53)),
        sa.Column("expires_at", Time),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_documents_tenant_id"),
        sa.PrimaryKeyConstraint("num", name="pk_documents"),
        sa.UniqueConstraint("tenant_id", "path_hash", name="uq_documents_tenant_id_path_hash"),
    )
    op.create_index("ix_documents_tenant_id_seq", "documents", ["tenant_id", "seq"])
    op.create_index(
        "ix_documents_tenant_id_user_id_seq", "documents", ["tenant_id", "user_id", "seq"]
    )
    op.create_index("ix_documents_expires_at", "documents", ["expires_at"])
    op.create_table(
        "document_vectors",
        sa.Column("document_num", Number, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_num"],
            ["documents.num"],
            name="fk_document_vectors_document_num",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("document_num", "position", name="pk_document_vectors"),
    )


def downgrade() -> None:
    op.drop_table("document_vectors")
    op.drop_table("documents")
