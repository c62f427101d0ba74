"""Find the newest attempts across jobs."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_executions_finished", "executions", ["finished_at", "job_id"])


def downgrade() -> None:
    op.drop_index("ix_executions_finished", table_name="executions")
