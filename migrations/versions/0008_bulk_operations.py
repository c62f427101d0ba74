"""Changes of many jobs that run in the background."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "bulk_operations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("client_id", sa.BigInteger()),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("filter", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("through_id", sa.Uuid(), nullable=False),
        sa.Column("after_id", sa.Uuid()),
        sa.Column("spread_seconds", sa.Double()),
        sa.Column("state", sa.String(length=16), server_default="waiting", nullable=False),
        sa.Column("matched", sa.Integer(), nullable=False),
        sa.Column("changed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("passed_by", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("actor_kind", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("address", sa.String(length=64)),
        sa.Column("created_at", INSTANT, server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.CheckConstraint("action IN ('retry', 'cancel', 'delete')", name=op.f("ck_bulk_operations_action")),
        sa.CheckConstraint(
            "state IN ('waiting', 'running', 'done', 'stopped', 'failed')", name=op.f("ck_bulk_operations_state")
        ),
        sa.CheckConstraint(
            "(finished_at IS NULL) = (state IN ('waiting', 'running'))", name=op.f("ck_bulk_operations_finished_at")
        ),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_bulk_operations_client_id_clients")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bulk_operations")),
    )
    op.create_index("ix_bulk_operations_client_id", "bulk_operations", ["client_id"])
    op.create_index(
        "ix_bulk_operations_open", "bulk_operations", ["id"], postgresql_where=sa.text("state IN ('waiting', 'running')")
    )


def downgrade() -> None:
    op.drop_table("bulk_operations")
