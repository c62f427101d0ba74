"""Fills a database with finished jobs and what goes with them, as after a month of work."""

from __future__ import annotations

import time

from sqlalchemy import Connection, text

from app.clients import get_or_create_client
from app.jobs.stats import BUCKETS
from app.queues import ensure

CLIENTS = 8
HOSTS = 40
TYPES = 25
DAYS = 30
CHUNK = 100_000
EXECUTIONS_EACH = 3

# Ids in the order of time, as those of UUIDv7 are: the milliseconds of created_at, then random bits.
JOBS = text(f"""
    INSERT INTO jobs (id, client_id, queue_id, type, payload, payload_bytes, callback_url, callback_host, status, run_at, scheduled_for,
                      first_due_at, attempts, max_attempts, idempotency_key, last_error, last_error_class, last_status_code, created_at,
                      updated_at, started_at, finished_at, tags)
    SELECT CAST(lpad(to_hex((extract(epoch FROM m.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(m.n::text), 1, 3) || 'b' ||
                substr(md5(m.n::text), 4, 15) AS uuid),
           q.client_id, q.id, 'job.type.' || m.n % {TYPES}, '{{"n": ' || m.n || '}}', 10, 'https://h' || m.n % {HOSTS} || '.example/hook',
           'https://h' || m.n % {HOSTS} || '.example:443', m.status, m.at, m.at, m.at, {EXECUTIONS_EACH}, 5,
           CASE WHEN m.n % 10 = 0 THEN 'key-' || m.n END, CASE WHEN m.status = 'dead' THEN 'The receiver answered 500.' END,
           CASE WHEN m.status = 'dead' THEN (ARRAY['http_5xx', 'timeout', 'connect', 'http_4xx'])[1 + m.n % 4] END,
           CASE WHEN m.status = 'dead' THEN 500 ELSE 200 END, m.at, m.at + interval '2 s', m.at + interval '1 s', m.at + interval '2 s',
           CASE WHEN m.n % 20 = 0 THEN ARRAY['tag-' || m.n % 7] ELSE '{{}}' END
    FROM (SELECT n, punctual_now() - make_interval(secs => {DAYS * 86_400}.0 * (:total - n) / :total) AS at,
                 CASE WHEN n % 50 = 0 THEN 'dead' WHEN n % 200 = 7 THEN 'cancelled' ELSE 'done' END AS status
          FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS n) m
    JOIN (SELECT id, client_id, row_number() OVER (ORDER BY client_id) - 1 AS place FROM queues WHERE name = 'default') q
      ON q.place = m.n % {CLIENTS}
    ON CONFLICT DO NOTHING
""")
EXECUTIONS = text(f"""
    INSERT INTO executions (job_id, queue_generation, attempt, number, status, due_at, started_at, finished_at, status_code, error_class,
                            error, timings, response_headers, response_body)
    SELECT j.id, 0, a, a, CASE WHEN ok THEN 'succeeded' ELSE 'failed' END, j.run_at, j.run_at + a * interval '5 s',
           j.run_at + a * interval '5 s' + make_interval(secs => 0.02 + (('x' || substr(md5(j.id::text), 1, 4))::bit(16)::int) / 65536.0),
           CASE WHEN ok THEN 200 ELSE 500 END, CASE WHEN NOT ok THEN 'http_5xx' END,
           CASE WHEN NOT ok THEN 'The receiver answered 500.' END, '{{"connect": 3.1, "first_byte": 18.2, "total": 20.0}}',
           '[["Content-Type", "text/plain"]]', 'ok'
    FROM jobs j CROSS JOIN generate_series(1, {EXECUTIONS_EACH}) AS a
    CROSS JOIN LATERAL (SELECT a = {EXECUTIONS_EACH} AND j.status = 'done' AS ok) o
    WHERE j.created_at > CAST(:after AS timestamptz) ON CONFLICT DO NOTHING
""")
MINUTES = text(f"""
    INSERT INTO minute_stats (minute, client_id, outcome, count, start_lag_buckets, callback_time_buckets)
    SELECT (SELECT date_trunc('minute', punctual_now())) - make_interval(mins => m), c.id, o.outcome, 10,
           array_fill(1::bigint, ARRAY[{BUCKETS}]), array_fill(1::bigint, ARRAY[{BUCKETS}])
    FROM generate_series(0, {DAYS * 1440}) AS m CROSS JOIN clients c CROSS JOIN (VALUES ('succeeded'), ('retried'), ('dead')) AS o(outcome)
""")
AUDIT = text("""
    INSERT INTO audit_log (at, actor_kind, actor, client_id, action, target_kind, target_id, detail)
    SELECT punctual_now() - make_interval(secs => n), 'user', 'ada', NULL, 'job.retry', 'job', gen_random_uuid()::text, '{}'
    FROM generate_series(1, :count) AS n
""")
ENTRIES = text("""
    INSERT INTO cron_entries (client_id, name, expression, timezone, job_type, payload, callback_url, callback_host, max_attempts, next_run_at)
    SELECT (SELECT min(id) FROM clients), 'entry ' || n, '*/5 * * * *', 'UTC', 'cron', '1', 'https://h1.example/hook', 'https://h1.example:443', 5,
           punctual_now() + interval '1 day'
    FROM generate_series(1, :count) AS n
""")
OCCURRENCES = text("""
    INSERT INTO cron_occurrences (cron_entry_id, nominal_at, status, reason)
    SELECT e.id, date_trunc('minute', punctual_now()) - make_interval(mins => 5 * n), 'skipped', 'overlap'
    FROM cron_entries e CROSS JOIN generate_series(1, 1000) AS n WHERE e.name = 'entry 1'
""")


def fill(conn: Connection, jobs: int) -> float:
    """Fills an empty, migrated database; the connection commits each statement. Returns the seconds it took."""
    began = time.monotonic()
    for number in range(CLIENTS):
        ensure(conn, get_or_create_client(conn, f"client {number}"), "default")
    for first in range(1, jobs + 1, CHUNK):
        newest = conn.execute(text("SELECT coalesce(max(created_at), '2000-01-01') FROM jobs")).scalar_one()
        conn.execute(JOBS, {"first": first, "last": min(jobs, first + CHUNK - 1), "total": jobs})
        conn.execute(EXECUTIONS, {"after": newest})
        if jobs > CHUNK:
            print(f"  {min(jobs, first + CHUNK - 1):,} jobs after {time.monotonic() - began:.0f} s", flush=True)
    conn.execute(MINUTES)
    conn.execute(AUDIT, {"count": min(jobs, 100_000)})
    conn.execute(ENTRIES, {"count": min(jobs, 200)})
    conn.execute(OCCURRENCES)
    for table in ("jobs", "executions", "minute_stats", "audit_log", "cron_entries", "cron_occurrences", "queues"):
        conn.execute(text(f"VACUUM ANALYZE {table}"))
    return time.monotonic() - began
