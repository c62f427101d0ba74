"""What a limited queue runs is counted by an index of its own, and lists by run_at have one."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_jobs_running_queue", "jobs", ["queue_id"], postgresql_where=sa.text("status = 'running'"))
    op.create_index("ix_jobs_run_at", "jobs", ["run_at"])


def downgrade() -> None:
    op.drop_index("ix_jobs_run_at", table_name="jobs")
    op.drop_index("ix_jobs_running_queue", table_name="jobs")
