"""Telling how a job ended: a job of its own for its on_success_url or on_failure_url, made by the statement that ends it."""

from __future__ import annotations

# What the told job's type begins with; its status is the rest.
TYPE_PREFIX = "punctual.job."
EXCERPT_CHARACTERS = 1024


def cte(*, status_code: str, error: str, excerpt: str, source: str) -> str:
    """SQL for `followed`, beside a CTE `changed` (id, client_id, status, attempts) of jobs that this statement ends.

    `source` joins what the three expressions and `follow_id`, the id of the job to make, are taken from; `j` is the ended job
    as it was, whose queue, priority and trace the new one has. A job without an address for its status makes none; nor does a cancelled one: whoever cancelled it knows.
    """
    return f"""
    followed AS (
      INSERT INTO jobs (id, client_id, queue_id, priority, traceparent, type, payload, payload_bytes, callback_url, callback_host, max_attempts, status, run_at,
                        scheduled_for, first_due_at, follows_job_id, created_at, updated_at)
      SELECT follow_id, c.client_id, j.queue_id, j.priority, j.traceparent, '{TYPE_PREFIX}' || c.status, told.payload, octet_length(told.payload),
             CASE c.status WHEN 'done' THEN j.on_success_url ELSE j.on_failure_url END,
             CASE c.status WHEN 'done' THEN j.on_success_host ELSE j.on_failure_host END,
             5, 'pending', clock.now, clock.now, clock.now, c.id, clock.now, clock.now
      FROM changed c JOIN jobs j ON j.id = c.id AND j.id = ANY(ARRAY(SELECT id FROM changed)) {source} CROSS JOIN clock
      CROSS JOIN LATERAL (SELECT CAST(json_build_object(
        'job_id', c.id, 'type', j.type, 'status', c.status, 'attempts', c.attempts, 'last_status_code', {status_code},
        'last_error', {error}, 'excerpt', left({excerpt}, {EXCERPT_CHARACTERS}), 'finished_at', clock.now) AS text) AS payload) told
      WHERE c.status = 'done' AND j.on_success_url IS NOT NULL OR c.status = 'dead' AND j.on_failure_url IS NOT NULL
      RETURNING id, run_at, follows_job_id
    )"""
