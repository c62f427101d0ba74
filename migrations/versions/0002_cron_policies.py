"""Cron entries: descriptions, bounds, jitter and pauses; what waits for a job to end; counts by reason."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)
DUE_AT = "(next_run_at AT TIME ZONE 'UTC' + offset_ms * interval '1 millisecond') AT TIME ZONE 'UTC'"
CHECKS = (
    ("cron_entries", "jitter", "jitter_seconds BETWEEN 0 AND 86400"),
    (
        "cron_entries",
        "offset",
        "offset_ms = 0 AND jitter_seconds = 0 OR offset_ms >= 0 AND offset_ms < jitter_seconds * 1000",
    ),
    ("cron_entries", "starts_before_ends", "starts_at < ends_at"),
    ("cron_entries", "enabled", "NOT (enabled AND (paused_at IS NOT NULL OR disabled_reason IS NOT NULL))"),
    ("cron_occurrences", "reason", "(status = 'skipped') = (reason IS NOT NULL)"),
    ("cron_occurrences", "job", "(status = 'fired') = (job_id IS NOT NULL)"),
)


def upgrade() -> None:
    for column in (
        sa.Column("description", sa.Text()),
        sa.Column("starts_at", INSTANT),
        sa.Column("ends_at", INSTANT),
        sa.Column("jitter_seconds", sa.Integer(), server_default="0", nullable=False),
        sa.Column("offset_ms", sa.Integer(), server_default="0", nullable=False),
        sa.Column("paused_at", INSTANT),
        sa.Column("pause_reason", sa.Text()),
        sa.Column("paused_by", sa.String(length=128)),
        sa.Column("due_at", INSTANT, sa.Computed(DUE_AT, persisted=True)),
    ):
        op.add_column("cron_entries", column)
    op.add_column("cron_occurrences", sa.Column("due_at", INSTANT))
    for table, name, condition in CHECKS:
        op.create_check_constraint(op.f(f"ck_{table}_{name}"), table, condition)
    op.drop_index("ix_cron_entries_due", "cron_entries")
    op.create_index("ix_cron_entries_due", "cron_entries", ["due_at", "id"], postgresql_where=sa.text("enabled"))
    op.create_index(
        "uq_cron_occurrences_buffered",
        "cron_occurrences",
        ["cron_entry_id"],
        unique=True,
        postgresql_where=sa.text("status = 'buffered'"),
    )
    op.create_table(
        "cron_totals",
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("status", "reason", "slot", name=op.f("pk_cron_totals")),
    )


def downgrade() -> None:
    op.drop_table("cron_totals")
    op.drop_index("uq_cron_occurrences_buffered", "cron_occurrences")
    op.drop_index("ix_cron_entries_due", "cron_entries")
    op.create_index("ix_cron_entries_due", "cron_entries", ["next_run_at", "id"], postgresql_where=sa.text("enabled"))
    for table, name, _ in CHECKS:
        op.drop_constraint(op.f(f"ck_{table}_{name}"), table)
    op.drop_column("cron_occurrences", "due_at")
    for name in (
        "due_at",
        "paused_by",
        "pause_reason",
        "paused_at",
        "offset_ms",
        "jitter_seconds",
        "ends_at",
        "starts_at",
    ):
        op.drop_column("cron_entries", name)
    op.drop_column("cron_entries", "description")
