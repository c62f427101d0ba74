"""Finding jobs: a filter becomes SQL that an index serves, for pages of a list, capped counts, and bulk changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, literal, select, text, union_all

from app.database import transaction
from app.jobs.queries import JobRow, columns_of
from app.models import Client, Job, Queue

# Counts are exact up to here; beyond, the planner's estimate is told.
COUNT_CAP = 10_000
# Ids hold the time of the host that made them, which may be wrong; created_at, PostgreSQL's, has the last word.
CLOCK_SKEW = timedelta(hours=2)
# One key may have been used by many clients.
MOST_KEYS = 100
STATEMENT_TIMEOUT = text("SELECT set_config('statement_timeout', '3s', true)")
ESTIMATED_ROWS = text("SELECT reltuples FROM pg_class WHERE oid = 'jobs'::regclass")

_COLUMNS = columns_of(JobRow)
_HEX = re.compile(r"[0-9a-f]{1,32}", re.ASCII)

Condition = ColumnElement[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSearch:
    """What jobs are looked for; what is None or empty matches every job.

    `client_id` None is every client's: for users of the dashboard, never for programs. `callback_hosts` are keys such as
    https://example.com:443. `created_until` and `run_until` are exclusive, `updated_until` is not. `queue` is its name. `words` is an id, the beginning of one, or an idempotency key.
    """

    client_id: int | None = None
    statuses: tuple[str, ...] = ()
    type: str | None = None
    callback_hosts: tuple[str, ...] | None = None
    cron_entry_id: int | None = None
    error_class: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    run_from: datetime | None = None
    run_until: datetime | None = None
    updated_until: datetime | None = None
    queue: str | None = None
    tag: str | None = None
    idempotency_key: str | None = None
    words: str | None = None

    @property
    def is_everything(self) -> bool:
        return self == JobSearch()


@dataclass(frozen=True, slots=True)
class Count:
    """How many jobs match. `is_estimate`: there are more than COUNT_CAP, about `number`."""

    number: int
    is_estimate: bool = False


def page(engine: Engine, search: JobSearch, limit: int, after: UUID | None = None) -> Sequence[JobRow]:
    """Up to `limit` jobs, newest first, without payloads; `after` begins below that id.

    Raises OperationalError (57014) when the filter takes longer than 3 s.
    """
    with _bounded(engine) as conn:
        query = _newest(conn, search, _COLUMNS, limit, after)
        return [] if query is None else [JobRow(**row) for row in conn.execute(query).mappings()]


def ids(engine: Engine, search: JobSearch, limit: int, through: UUID, after: UUID | None = None) -> list[UUID]:
    """Ids of up to `limit` matching jobs, newest first, from `through` on or below `after`: a walk sees each job once."""
    with _bounded(engine) as conn:
        return ids_on(conn, search, limit, through, after)


def ids_on(conn: Connection, search: JobSearch, limit: int, through: UUID, after: UUID | None = None) -> list[UUID]:
    """The same, within a transaction of the caller's."""
    query = _newest(conn, search, [Job.id], limit, after, through)
    return [] if query is None else list(conn.execute(query).scalars())


def newest_id(engine: Engine, search: JobSearch) -> UUID | None:
    """The newest matching job, which bounds a bulk change to what there was when it was asked about."""
    with _bounded(engine) as conn:
        query = _newest(conn, search, [Job.id], 1, None)
        return None if query is None else conn.execute(query).scalars().one_or_none()


def among(engine: Engine, job_ids: Sequence[UUID], statuses: Sequence[str]) -> Sequence[JobRow]:
    """Those of some jobs that stand in one of the statuses, newest first."""
    query = select(*_COLUMNS).where(Job.id.in_(job_ids), Job.status.in_(statuses)).order_by(Job.id.desc())
    with _bounded(engine) as conn:
        return [JobRow(**row) for row in conn.execute(query).mappings()]


def count(engine: Engine, search: JobSearch, through: UUID | None = None) -> Count:
    """How many match, from the id `through` on: exactly up to COUNT_CAP, else about."""
    with _bounded(engine) as conn:
        arms = _arms(conn, search)
        if through is not None:
            arms = [[*arm, Job.id <= through] for arm in arms]
        if not arms:
            return Count(0)
        capped = union_all(
            *(select(literal(1)).select_from(Job).where(*arm).limit(COUNT_CAP + 1) for arm in arms)
        ).subquery()
        number = int(conn.execute(select(func.count()).select_from(capped)).scalar_one())
        if number <= COUNT_CAP:
            return Count(number)
        if search.is_everything:
            estimate = float(conn.execute(ESTIMATED_ROWS).scalar_one())
        else:
            estimate = sum(_estimate(conn, select(Job.id).where(*arm)) for arm in arms)
    return Count(max(COUNT_CAP, int(estimate)), is_estimate=True)


def narrowed(search: JobSearch, statuses: Sequence[str]) -> JobSearch | None:
    """The same search among these statuses only; None when that leaves nothing."""
    left = tuple(status for status in statuses if not search.statuses or status in search.statuses)
    return replace(search, statuses=left) if left else None


@contextmanager
def _bounded(engine: Engine) -> Iterator[Connection]:
    with transaction(engine) as conn:
        conn.execute(STATEMENT_TIMEOUT)
        yield conn


def _newest(
    conn: Connection,
    search: JobSearch,
    columns: Sequence[Any],
    limit: int,
    after: UUID | None,
    through: UUID | None = None,
) -> Select[Any] | None:
    """The newest of all arms: each is walked along its own index, and no further than `limit` rows."""
    bounds: list[Condition] = []
    if after is not None:
        bounds.append(Job.id < after)
    if through is not None:
        bounds.append(Job.id <= through)
    arms = [select(*columns).where(*arm, *bounds).order_by(Job.id.desc()).limit(limit) for arm in _arms(conn, search)]
    if len(arms) < 2:
        return arms[0] if arms else None
    merged = union_all(*arms).subquery()
    return select(*merged.c).order_by(merged.c.id.desc()).limit(limit)


def _arms(conn: Connection, search: JobSearch) -> list[list[Condition]]:
    """The filter as alternatives that no job matches twice. None: nothing can match.

    One for each status and each reading of `words`, since an index gives its rows in order for one value only.
    """
    conditions = _conditions(search)
    if search.queue is not None:
        conditions.append(Job.queue_id.in_(_queue_ids(conn, search.queue, search.client_id)))
    if search.idempotency_key is not None:
        conditions.append(Job.id.in_(_ids_by_key(conn, search, search.idempotency_key)))
    statuses: list[list[Condition]] = [[Job.status == status] for status in search.statuses] or [[]]
    readings: list[list[Condition]] = [[]] if search.words is None else _readings(conn, search, search.words.strip())
    return [[*conditions, *status, *reading] for status in statuses for reading in readings]


def _conditions(search: JobSearch) -> list[Condition]:
    found: list[Condition] = []
    if search.client_id is not None:
        found.append(Job.client_id == search.client_id)
    if search.type is not None:
        found.append(Job.type == search.type)
    if search.callback_hosts is not None:
        hosts = search.callback_hosts
        found.append(Job.callback_host == hosts[0] if len(hosts) == 1 else Job.callback_host.in_(hosts))
    if search.cron_entry_id is not None:
        found.append(Job.cron_entry_id == search.cron_entry_id)
    if search.error_class is not None:
        found.append(Job.last_error_class == search.error_class)
    if search.tag is not None:
        # The index holds the jobs that have tags.
        found += [Job.tags.contains([search.tag]), Job.tags != text("'{}'")]
    if search.run_from is not None:
        found.append(Job.run_at >= search.run_from)
    if search.run_until is not None:
        found.append(Job.run_at < search.run_until)
    if search.updated_until is not None:
        found.append(Job.updated_at <= search.updated_until)
    if search.created_from is not None:
        found += [Job.created_at >= search.created_from, Job.id >= first_id(search.created_from - CLOCK_SKEW)]
    if search.created_until is not None:
        found += [Job.created_at < search.created_until, Job.id <= first_id(search.created_until + CLOCK_SKEW)]
    return found


def first_id(at: datetime) -> UUID:
    """The least UUIDv7 of an instant's millisecond; ids are in the order of time, so a range of time is one of ids."""
    return UUID(int=max(0, int(at.timestamp() * 1000)) << 80)


def id_range(words: str) -> tuple[UUID, UUID] | None:
    """The ids that begin with `words`, with or without the hyphens; None when no id can."""
    words = words.lower()
    digits = words.replace("-", "")
    if _HEX.fullmatch(digits) is None:
        return None
    first = UUID(digits.ljust(32, "0"))
    if words != digits and not str(first).startswith(words):
        return None
    return first, UUID(digits.ljust(32, "f"))


def _readings(conn: Connection, search: JobSearch, words: str) -> list[list[Condition]]:
    found: list[list[Condition]] = []
    span = id_range(words)
    if span is not None:
        found.append([Job.id.between(*span)])
    by_key = [each for each in _ids_by_key(conn, search, words) if span is None or not span[0] <= each <= span[1]]
    if by_key:
        found.append([Job.id.in_(by_key)])
    return found


def _ids_by_key(conn: Connection, search: JobSearch, key: str) -> list[UUID]:
    """Jobs with this idempotency key, one a client: the unique index is asked once for each of them."""
    if "\0" in key or len(key) > 255:
        return []
    of_client = select(Job.id).where(Job.client_id == Client.id, Job.idempotency_key == key).correlate(Client).lateral()
    query = select(of_client.c.id).select_from(Client).join(of_client, literal(True)).limit(MOST_KEYS)
    if search.client_id is not None:
        query = query.where(Client.id == search.client_id)
    return list(conn.execute(query).scalars())


def _queue_ids(conn: Connection, name: str, client_id: int | None) -> list[int]:
    """The queues of this name: one a client."""
    query = select(Queue.id).where(Queue.name == name)
    return list(conn.execute(query if client_id is None else query.where(Queue.client_id == client_id)).scalars())


def _estimate(conn: Connection, query: Select[Any]) -> float:
    """What PostgreSQL's planner expects."""
    compiled = query.compile(conn, compile_kwargs={"render_postcompile": True})
    told = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {compiled}", compiled.params).scalar_one()
    plan = json.loads(told) if isinstance(told, str) else told
    return float(plan[0]["Plan"]["Plan Rows"])
