"""The first tables, and the one function that tells the time (C1)."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE FUNCTION punctual_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE"
        " AS 'SELECT clock_timestamp()'"
    )
    op.create_table(
        "clients",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("rate_limit_per_minute", sa.Integer(), nullable=True),
        sa.Column("signing_secret", sa.String(length=128), nullable=False),
        sa.Column("previous_signing_secret", sa.String(length=128), nullable=True),
        sa.Column("previous_secret_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.CheckConstraint("rate_limit_per_minute > 0", name=op.f("ck_clients_rate_limit_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clients")),
        sa.UniqueConstraint("name", name=op.f("uq_clients_name")),
    )
    op.create_table(
        "leader",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Uuid(), nullable=True),
        sa.Column("acquired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )
    op.create_table(
        "processes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("lost_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("doing", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.CheckConstraint("kind IN ('worker', 'scheduler')", name=op.f("ck_processes_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("password_hash", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("session_epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("last_sign_in_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'admin')", name=op.f("ck_users_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
    )
    op.create_index("uq_users_name_lower", "users", [sa.literal_column("lower(name)")], unique=True)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("client_id", sa.BigInteger(), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=True),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("hashed_key", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_api_keys_client_id_clients")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("hashed_key", name=op.f("uq_api_keys_hashed_key")),
        sa.UniqueConstraint("prefix", name=op.f("uq_api_keys_prefix")),
    )
    op.create_index(op.f("ix_api_keys_client_id"), "api_keys", ["client_id"], unique=False)
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("actor_kind", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("client_id", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target_kind", sa.String(length=32), nullable=False),
        sa.Column("target_id", sa.String(length=128), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_audit_log_client_id_clients")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at", "id"], unique=False)
    op.create_index("ix_audit_log_target", "audit_log", ["target_kind", "target_id", "id"], unique=False)
    op.create_table(
        "cron_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("client_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=True),
        sa.Column("expression", sa.String(length=255), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("job_type", sa.String(length=128), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("callback_url", sa.String(length=2048), nullable=False),
        sa.Column("callback_host", sa.String(length=300), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("overlap", sa.String(length=16), server_default="skip", nullable=False),
        sa.Column("catch_up", sa.String(length=8), server_default="one", nullable=False),
        sa.Column("catch_up_window_seconds", sa.Integer(), server_default="3600", nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("next_run_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_run_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_job_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.CheckConstraint("catch_up IN ('one', 'all', 'none')", name=op.f("ck_cron_entries_catch_up")),
        sa.CheckConstraint(
            "overlap IN ('allow', 'skip', 'buffer_one', 'cancel_previous')", name=op.f("ck_cron_entries_overlap")
        ),
        sa.CheckConstraint(
            "catch_up_window_seconds BETWEEN 0 AND 31536000", name=op.f("ck_cron_entries_catch_up_window")
        ),
        sa.CheckConstraint("max_attempts BETWEEN 1 AND 100", name=op.f("ck_cron_entries_max_attempts")),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_cron_entries_client_id_clients")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cron_entries")),
    )
    op.create_index(op.f("ix_cron_entries_client_id"), "cron_entries", ["client_id"], unique=False)
    op.create_index(
        "ix_cron_entries_due", "cron_entries", ["next_run_at", "id"], unique=False, postgresql_where=sa.text("enabled")
    )
    op.create_index(
        "uq_cron_entries_client_name",
        "cron_entries",
        ["client_id", "name"],
        unique=True,
        postgresql_where=sa.text("name IS NOT NULL"),
    )
    op.create_table(
        "minute_stats",
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("client_id", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("start_lag_buckets", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("callback_time_buckets", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_minute_stats_client_id_clients")),
        sa.PrimaryKeyConstraint("minute", "client_id", "outcome", name=op.f("pk_minute_stats")),
    )
    op.create_table(
        "cron_occurrences",
        sa.Column("cron_entry_id", sa.BigInteger(), nullable=False),
        sa.Column("nominal_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("through_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("count", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.CheckConstraint("status IN ('fired', 'buffered', 'skipped')", name=op.f("ck_cron_occurrences_status")),
        sa.ForeignKeyConstraint(
            ["cron_entry_id"],
            ["cron_entries.id"],
            name=op.f("fk_cron_occurrences_cron_entry_id_cron_entries"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("cron_entry_id", "nominal_at", name=op.f("pk_cron_occurrences")),
    )
    op.create_index("ix_cron_occurrences_nominal_at", "cron_occurrences", ["nominal_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("client_id", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(length=128), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("payload_bytes", sa.Integer(), nullable=False),
        sa.Column("callback_url", sa.String(length=2048), nullable=False),
        sa.Column("callback_host", sa.String(length=300), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("run_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("scheduled_for", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempts_before", sa.Integer(), server_default="0", nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("queue_generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("request_fingerprint", sa.LargeBinary(), nullable=True),
        sa.Column("cron_entry_id", sa.BigInteger(), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.Uuid(), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_error_class", sa.String(length=32), nullable=True),
        sa.Column("last_status_code", sa.SmallInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("punctual_now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(finished_at IS NOT NULL) = (status IN ('done', 'dead', 'cancelled'))", name=op.f("ck_jobs_finished_at")
        ),
        sa.CheckConstraint(
            "(status = 'running') = (lease_expires_at IS NOT NULL) AND (status = 'running') = (worker IS NOT NULL)",
            name=op.f("ck_jobs_lease"),
        ),
        sa.CheckConstraint("status <> 'running' OR attempts > 0", name=op.f("ck_jobs_running_attempt")),
        sa.CheckConstraint(
            "status IN ('pending', 'scheduled', 'running', 'done', 'dead', 'cancelled')", name=op.f("ck_jobs_status")
        ),
        sa.CheckConstraint(
            "attempts BETWEEN 0 AND max_attempts AND max_attempts BETWEEN 1 AND 100", name=op.f("ck_jobs_attempts")
        ),
        sa.ForeignKeyConstraint(["client_id"], ["clients.id"], name=op.f("fk_jobs_client_id_clients")),
        sa.ForeignKeyConstraint(
            ["cron_entry_id"], ["cron_entries.id"], name=op.f("fk_jobs_cron_entry_id_cron_entries"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_client_id", "jobs", ["client_id", "id"], unique=False)
    op.create_index("ix_jobs_client_status", "jobs", ["client_id", "status", "id"], unique=False)
    op.create_index(
        "ix_jobs_cron_entry",
        "jobs",
        ["cron_entry_id", "id"],
        unique=False,
        postgresql_where=sa.text("cron_entry_id IS NOT NULL"),
    )
    op.create_index(
        "ix_jobs_due",
        "jobs",
        ["run_at", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('pending', 'scheduled')"),
    )
    op.create_index(
        "ix_jobs_finished", "jobs", ["finished_at"], unique=False, postgresql_where=sa.text("finished_at IS NOT NULL")
    )
    op.create_index(
        "ix_jobs_running", "jobs", ["worker", "id"], unique=False, postgresql_where=sa.text("status = 'running'")
    )
    op.create_index("ix_jobs_status", "jobs", ["status", "id"], unique=False)
    op.create_index(
        "uq_jobs_client_idempotency_key",
        "jobs",
        ["client_id", "idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "executions",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("queue_generation", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status_code", sa.SmallInteger(), nullable=True),
        sa.Column("error_class", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("timings", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "response_headers", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("response_body", sa.Text(), server_default="", nullable=False),
        sa.Column("response_truncated", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("worker", sa.Uuid(), nullable=True),
        sa.CheckConstraint(
            "status IN ('succeeded', 'failed', 'timed_out', 'blocked', 'lost')", name=op.f("ck_executions_status")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_executions_job_id_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "queue_generation", "attempt", name=op.f("pk_executions")),
    )
    op.execute("INSERT INTO leader (id) VALUES (1)")


def downgrade() -> None:
    op.drop_table("executions")
    op.drop_index(
        "uq_jobs_client_idempotency_key", table_name="jobs", postgresql_where=sa.text("idempotency_key IS NOT NULL")
    )
    op.drop_index("ix_jobs_status", table_name="jobs")
    op.drop_index("ix_jobs_running", table_name="jobs", postgresql_where=sa.text("status = 'running'"))
    op.drop_index("ix_jobs_finished", table_name="jobs", postgresql_where=sa.text("finished_at IS NOT NULL"))
    op.drop_index("ix_jobs_due", table_name="jobs", postgresql_where=sa.text("status IN ('pending', 'scheduled')"))
    op.drop_index("ix_jobs_cron_entry", table_name="jobs", postgresql_where=sa.text("cron_entry_id IS NOT NULL"))
    op.drop_index("ix_jobs_client_status", table_name="jobs")
    op.drop_index("ix_jobs_client_id", table_name="jobs")
    op.drop_table("jobs")
    op.drop_index("ix_cron_occurrences_nominal_at", table_name="cron_occurrences")
    op.drop_table("cron_occurrences")
    op.drop_table("minute_stats")
    op.drop_index(
        "uq_cron_entries_client_name", table_name="cron_entries", postgresql_where=sa.text("name IS NOT NULL")
    )
    op.drop_index("ix_cron_entries_due", table_name="cron_entries", postgresql_where=sa.text("enabled"))
    op.drop_index(op.f("ix_cron_entries_client_id"), table_name="cron_entries")
    op.drop_table("cron_entries")
    op.drop_index("ix_audit_log_target", table_name="audit_log")
    op.drop_index("ix_audit_log_at", table_name="audit_log")
    op.drop_table("audit_log")
    op.drop_index(op.f("ix_api_keys_client_id"), table_name="api_keys")
    op.drop_table("api_keys")
    op.drop_index("uq_users_name_lower", table_name="users")
    op.drop_table("users")
    op.drop_table("processes")
    op.drop_table("leader")
    op.drop_table("clients")
    op.execute("DROP FUNCTION punctual_now()")
