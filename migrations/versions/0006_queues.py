"""Queues with limits; priority, tags and an end to waiting for jobs and templates of cron entries."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)
TABLES = ("jobs", "cron_entries")


def upgrade() -> None:
    op.create_table(
        "queues",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("client_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("concurrency", sa.Integer()),
        sa.Column("rate_limit", sa.Integer()),
        sa.Column("rate_period_seconds", sa.Double()),
        sa.Column("paused_at", INSTANT),
        sa.Column("pause_reason", sa.Text()),
        sa.Column("paused_by", sa.String(length=128)),
        sa.Column("default_max_attempts", sa.Integer()),
        sa.Column("default_timeout_seconds", sa.Double()),
        sa.Column("circuit_breaker", sa.Boolean()),
        sa.Column(
            "is_limited",
            sa.Boolean(),
            sa.Computed("concurrency IS NOT NULL OR rate_limit IS NOT NULL OR paused_at IS NOT NULL", persisted=True),
            nullable=False,
        ),
        sa.Column("rate_starts", sa.ARRAY(INSTANT), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("rate_counts", sa.ARRAY(sa.Integer()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", INSTANT, server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("updated_at", INSTANT, server_default=sa.text("punctual_now()"), nullable=False),
        sa.CheckConstraint("concurrency BETWEEN 1 AND 100000", name=op.f("ck_queues_concurrency")),
        sa.CheckConstraint(
            "(rate_limit IS NULL) = (rate_period_seconds IS NULL) AND rate_limit BETWEEN 1 AND 1000000 "
            "AND rate_period_seconds BETWEEN 0.1 AND 604800",
            name=op.f("ck_queues_rate"),
        ),
        sa.CheckConstraint("default_max_attempts BETWEEN 1 AND 100", name=op.f("ck_queues_default_max_attempts")),
        sa.CheckConstraint("default_timeout_seconds BETWEEN 0.1 AND 900", name=op.f("ck_queues_default_timeout")),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_queues_client_id_clients")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queues")),
        sa.UniqueConstraint("client_id", "name", name=op.f("uq_queues_client_id_name")),
    )
    op.execute("INSERT INTO queues (client_id, name) SELECT id, 'default' FROM clients")
    op.add_column("jobs", sa.Column("queue_id", sa.BigInteger()))
    op.execute("UPDATE jobs j SET queue_id = q.id FROM queues q WHERE q.client_id = j.client_id")
    op.alter_column("jobs", "queue_id", nullable=False)
    op.add_column("cron_entries", sa.Column("queue", sa.String(length=64), server_default="default", nullable=False))
    for table in TABLES:
        op.add_column(table, sa.Column("priority", sa.SmallInteger(), server_default="5", nullable=False))
        op.add_column(table, sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False))
        op.create_check_constraint(op.f(f"ck_{table}_priority"), table, "priority BETWEEN 0 AND 9")
    op.add_column("jobs", sa.Column("expires_at", INSTANT))
    op.add_column("jobs", sa.Column("dedupe_until", INSTANT))
    op.create_index("ix_jobs_tags", "jobs", ["tags"], postgresql_using="gin", postgresql_where=sa.text("tags <> '{}'"))
    op.create_index("ix_jobs_queue", "jobs", ["queue_id", "id"])
    op.create_index(
        "ix_jobs_waiting", "jobs", ["queue_id", "run_at"], postgresql_where=sa.text("status IN ('pending', 'scheduled')")
    )
    op.create_index(
        "ix_jobs_expires",
        "jobs",
        ["expires_at"],
        postgresql_where=sa.text("expires_at IS NOT NULL AND status IN ('pending', 'scheduled')"),
    )


def downgrade() -> None:
    for name in ("ix_jobs_expires", "ix_jobs_waiting", "ix_jobs_queue", "ix_jobs_tags"):
        op.drop_index(name, "jobs")
    op.drop_column("jobs", "dedupe_until")
    op.drop_column("jobs", "expires_at")
    for table in TABLES:
        op.drop_constraint(op.f(f"ck_{table}_priority"), table)
        for name in ("tags", "priority"):
            op.drop_column(table, name)
    op.drop_column("cron_entries", "queue")
    op.drop_column("jobs", "queue_id")
    op.drop_table("queues")
