"""The trace that a job belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("traceparent", sa.String(length=55)))


def downgrade() -> None:
    op.drop_column("jobs", "traceparent")
