"""Any request, its own retry policy, what tells how a job ended, and what a job was before it was edited."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)
TABLES = ("jobs", "cron_entries")
CHECKS = (
    ("method", "method IN ('GET', 'POST', 'PUT', 'PATCH', 'DELETE')"),
    ("timeout", "timeout_seconds BETWEEN 0.1 AND 900"),
)
NAMES = ("method", "headers", "content_type", "timeout_seconds", "success_statuses", "retry")
ENDS = ("on_success_url", "on_success_host", "on_failure_url", "on_failure_host")


def upgrade() -> None:
    for table in TABLES:
        for column in (
            sa.Column("method", sa.String(length=8), server_default="POST", nullable=False),
            sa.Column("headers", sa.Text(), server_default="[]", nullable=False),
            sa.Column("content_type", sa.String(length=255)),
            sa.Column("timeout_seconds", sa.Double(), server_default="10", nullable=False),
            sa.Column("success_statuses", sa.Text()),
            sa.Column("retry", sa.Text()),
            sa.Column("on_success_url", sa.String(length=2048)),
            sa.Column("on_success_host", sa.String(length=300)),
            sa.Column("on_failure_url", sa.String(length=2048)),
            sa.Column("on_failure_host", sa.String(length=300)),
        ):
            op.add_column(table, column)
        op.alter_column(table, "payload", nullable=True)
        for name, condition in CHECKS:
            op.create_check_constraint(op.f(f"ck_{table}_{name}"), table, condition)
    op.add_column("jobs", sa.Column("follows_job_id", sa.Uuid()))
    op.create_index(
        "ix_jobs_follows", "jobs", ["follows_job_id"], postgresql_where=sa.text("follows_job_id IS NOT NULL")
    )
    op.add_column("jobs", sa.Column("first_due_at", INSTANT))
    op.execute("UPDATE jobs SET first_due_at = greatest(scheduled_for, created_at)")
    op.alter_column("jobs", "first_due_at", nullable=False, server_default=sa.text("punctual_now()"))
    op.create_table(
        "job_revisions",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("through_generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("payload", sa.Text()),
        sa.Column("callback_url", sa.String(length=2048), nullable=False),
        sa.Column("method", sa.String(length=8), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("content_type", sa.String(length=255)),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", INSTANT, server_default=sa.text("punctual_now()"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_revisions_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "through_generation", name=op.f("pk_job_revisions")),
    )


def downgrade() -> None:
    op.drop_table("job_revisions")
    op.drop_column("jobs", "first_due_at")
    op.drop_index("ix_jobs_follows", "jobs")
    op.drop_column("jobs", "follows_job_id")
    for table in TABLES:
        for name, _ in CHECKS:
            op.drop_constraint(op.f(f"ck_{table}_{name}"), table)
        op.execute(f"UPDATE {table} SET payload = 'null' WHERE payload IS NULL")
        op.alter_column(table, "payload", nullable=False)
        for name in (*ENDS, *reversed(NAMES)):
            op.drop_column(table, name)
