"""Circuits: calls to a host that keeps failing are held back."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "circuits",
        sa.Column("client_id", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(length=300), nullable=False),
        sa.Column("opened_at", INSTANT),
        sa.Column("retry_at", INSTANT),
        sa.Column("trips", sa.Integer(), server_default="0", nullable=False),
        sa.Column("openings", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("probe_job_id", sa.Uuid()),
        sa.Column("probe_at", INSTANT),
        sa.Column("spans", sa.ARRAY(INSTANT), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("successes", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("failures", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("changed_at", INSTANT, server_default=sa.text("punctual_now()"), nullable=False),
        sa.CheckConstraint("(opened_at IS NULL) = (retry_at IS NULL)", name=op.f("ck_circuits_retry_at")),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_circuits_client_id_clients")),
        sa.PrimaryKeyConstraint("client_id", "host", name=op.f("pk_circuits")),
    )
    op.create_index(
        "ix_circuits_open", "circuits", ["client_id", "host"], postgresql_where=sa.text("opened_at IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_table("circuits")
