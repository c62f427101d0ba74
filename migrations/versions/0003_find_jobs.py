"""Indexes to find jobs by type, callback host and error class, and to group dead letters.

Building them holds up changes of jobs, for about a second and a half a million rows; submissions and results wait for it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

INDEXES = (
    ("ix_jobs_type", ["type", "id"], None),
    ("ix_jobs_callback_host", ["callback_host", "id"], None),
    ("ix_jobs_error_class", ["last_error_class", "id"], sa.text("last_error_class IS NOT NULL")),
    ("ix_jobs_dead", ["last_error_class", "callback_host", "id"], sa.text("status = 'dead'")),
)


def upgrade() -> None:
    for name, columns, where in INDEXES:
        op.create_index(name, "jobs", columns, postgresql_where=where)


def downgrade() -> None:
    for name, _, _ in INDEXES:
        op.drop_index(name, "jobs")
