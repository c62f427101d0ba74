"""What the tests of jobs start from: clients, jobs in any status, workers, cron entries, and a look at what Redis holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import redis
from sqlalchemy import Connection, Engine, RowMapping, text

from app.attempts import Answer, Claim
from app.clock import Clock
from app.ids import uuid7
from app.jobs import JobRequest, ToRecord, claim
from app.outcomes import Ending
from app.redis_client import Bypass
from app.redis_keys import Keys
from app.stores import Stores
from app.stream import Due, Stream, Ticket
from tests.shifted_time import shifted

FINISHED = ("done", "dead", "cancelled")
URL = "http://127.0.0.1:8080/hook"


@dataclass(frozen=True)
class Scene:
    """The stores as a program holds them, and a connection that commits each statement."""

    stores: Stores
    conn: Connection
    client_id: int

    @classmethod
    def on(cls, engine: Engine, client: redis.Redis, conn: Connection) -> Scene:
        return cls(Stores(engine, Stream(client, Keys("punctual")), Bypass()), conn, make_client(conn))

    @property
    def stream(self) -> Stream:
        return self.stores.stream

    @property
    def keys(self) -> Keys:
        return self.stores.stream.keys

    # PostgreSQL

    def now(self) -> datetime:
        return now(self.conn)

    def clock(self) -> Clock:
        """A clock that was just told PostgreSQL's time."""
        clock = Clock()
        clock.sync(self.now())
        return clock

    def request(self, **changes: Any) -> JobRequest:
        values: dict[str, Any] = {
            "client_id": self.client_id,
            "type": "test",
            "payload": '{"n": 1}',
            "callback_url": URL,
            "callback_host": "127.0.0.1:8080",
        }
        return JobRequest(**{**values, **changes})

    def job(self, status: str = "pending", **columns: Any) -> UUID:
        return make_job(self.conn, self.client_id, status, **columns)

    def entry(self, expression: str = "* * * * *", **columns: Any) -> int:
        return make_entry(self.conn, self.client_id, expression, **columns)

    def worker(self, **facts: Any) -> UUID:
        return make_worker(self.conn, **facts)

    def row(self, job_id: UUID) -> RowMapping:
        return self.conn.execute(text("SELECT * FROM jobs WHERE id = :id"), {"id": job_id}).mappings().one()

    def status(self, job_id: UUID) -> str:
        return str(self.row(job_id)["status"])

    def executions(self, job_id: UUID) -> list[RowMapping]:
        query = text("SELECT * FROM executions WHERE job_id = :id ORDER BY queue_generation, attempt")
        return list(self.conn.execute(query, {"id": job_id}).mappings())

    def all(self, table: str) -> list[RowMapping]:
        return list(self.conn.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2")).mappings())

    def count(self, table: str, condition: str = "true") -> int:
        return int(self.conn.execute(text(f"SELECT count(*) FROM {table} WHERE {condition}")).scalar_one())

    def change(self, job_id: UUID, **columns: Any) -> None:
        """Sets columns by hand, as no part of the product could."""
        sets = ", ".join(f"{name} = :{name}" for name in columns)
        self.conn.execute(text(f"UPDATE jobs SET {sets} WHERE id = :id"), {**columns, "id": job_id})

    def ticket(self, job_id: UUID) -> Ticket:
        row = self.row(job_id)
        return Ticket(str(job_id), row["queue_generation"], row["attempts"])

    def due(self, job_id: UUID) -> Due:
        """As it is added to Redis."""
        row = self.row(job_id)
        return Due(self.ticket(job_id), row["run_at"], f"{row['client_id']}:{row['queue_id']}:{row['priority']}")

    def claim(self, *job_ids: UUID, worker: UUID | None = None) -> list[Claim]:
        """Claims waiting jobs, in the order asked for, under a worker of their own unless one is given."""
        claimed = claim(self.conn, worker or self.worker(), [self.ticket(job_id) for job_id in job_ids])
        by_id = {claim.job_id: claim for claim in claimed.claims}
        return [by_id[job_id] for job_id in job_ids]

    def running(self, **columns: Any) -> tuple[Claim, UUID]:
        """A job that was just claimed, and by whom."""
        worker = self.worker()
        return self.claim(self.job(**columns), worker=worker)[0], worker

    # Redis

    def ready(self) -> list[str]:
        """The stream's entries, oldest first, in the form of tickets' members."""
        entries: Any = self.stream.client.xrange(self.keys.ready)
        return [b":".join((f[b"j"], f[b"g"], f[b"a"])).decode() for _, f in entries]

    def scheduled(self) -> dict[str, float]:
        """The set's members without their lanes, and their scores."""
        members: Any = self.stream.client.zrange(self.keys.scheduled, 0, -1, withscores=True)
        return {":".join(member.decode().split(":")[:3]): score for member, score in members}

    def on_the_way(self) -> list[str]:
        return [*self.ready(), *self.scheduled()]


def now(conn: Connection) -> datetime:
    instant: datetime = conn.execute(text("SELECT punctual_now()")).scalar_one()
    return instant


def make_client(conn: Connection, name: str = "tests") -> int:
    query = text("INSERT INTO clients (name, signing_secret) VALUES (:name, 'whsec_c2VjcmV0') RETURNING id")
    client_id = int(conn.execute(query, {"name": name}).scalar_one())
    make_queue(conn, client_id)
    return client_id


def make_queue(conn: Connection, client_id: int, name: str = "default", **columns: Any) -> int:
    values = {"client_id": client_id, "name": name, **columns}
    query = f"INSERT INTO queues ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)}) RETURNING id"
    return int(conn.execute(text(query), values).scalar_one())


def queue_id(conn: Connection, client_id: int, name: str = "default") -> int:
    """The id of a queue; 0 if there is none of this name."""
    query = text("SELECT id FROM queues WHERE client_id = :client_id AND name = :name")
    return int(conn.execute(query, {"client_id": client_id, "name": name}).scalar_one_or_none() or 0)


def make_worker(
    conn: Connection, *, kind: str = "worker", silent_seconds: float = 0, lost: bool = False, stopped: bool = False
) -> UUID:
    """A row in `processes` that last beat `silent_seconds` ago."""
    process_id = uuid7()
    conn.execute(
        text(
            "INSERT INTO processes (id, kind, host, pid, version, beat_at, lost_at, stopped_at) VALUES (:id, :kind, 'h', 1, '1',"
            " punctual_now() - make_interval(secs => :silent),"
            " CASE WHEN :lost THEN punctual_now() END, CASE WHEN :stopped THEN punctual_now() END)"
        ),
        {"id": process_id, "kind": kind, "silent": silent_seconds, "lost": lost, "stopped": stopped},
    )
    return process_id


def make_job(conn: Connection, client_id: int, status: str = "pending", **columns: Any) -> UUID:
    """A job that was due a minute ago, with all that its status asks for. `columns` go over it."""
    instant = now(conn)
    due_at = instant - timedelta(minutes=1)
    values: dict[str, Any] = {
        "id": uuid7(),
        "client_id": client_id,
        "type": "test",
        "payload": '{"n": 1}',
        "payload_bytes": 8,
        "queue_id": columns.get("queue_id") or queue_id(conn, client_id),
        "callback_url": URL,
        "callback_host": "127.0.0.1:8080",
        "status": status,
        "run_at": due_at,
        "scheduled_for": columns.get("run_at", due_at),
        "created_at": due_at,
        "updated_at": due_at,
        "max_attempts": 5,
    }
    if status == "running":
        lease = {"lease_expires_at": instant + timedelta(seconds=60), "worker": uuid7(), "started_at": instant}
        values |= {"attempts": 1, **lease}
    elif status in FINISHED:
        values |= {"attempts": 5 if status == "dead" else 1, "finished_at": instant}
    values |= columns
    names = ", ".join(values)
    conn.execute(text(f"INSERT INTO jobs ({names}) VALUES ({', '.join(f':{name}' for name in values)})"), values)
    job_id: UUID = values["id"]
    return job_id


def make_entry(conn: Connection, client_id: int, expression: str = "* * * * *", **columns: Any) -> int:
    """A cron entry that is due at the minute that has just begun, by PostgreSQL's time, with overlap `allow`."""
    values: dict[str, Any] = {
        "client_id": client_id,
        "expression": expression,
        "timezone": "UTC",
        "job_type": "test",
        "payload": '{"n": 1}',
        "callback_url": URL,
        "callback_host": "127.0.0.1:8080",
        "max_attempts": 5,
        "overlap": "allow",
        "next_run_at": now(conn).replace(second=0, microsecond=0),
        **columns,
    }
    query = f"INSERT INTO cron_entries ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)}) RETURNING id"
    return int(conn.execute(text(query), values).scalar_one())


def answer(error_class: str | None = None, **changes: Any) -> Answer:
    """What a call came to that took 20 ms; a success unless an error class is given."""
    started_at = datetime.now(UTC)
    values: dict[str, Any] = {
        "started_at": started_at,
        "finished_at": started_at + timedelta(milliseconds=20),
        "status_code": 200 if error_class is None else 500,
        "error_class": error_class,
        "error": None if error_class is None else "The receiver answered 500.",
        "timings": {"total": 20.0},
        "response_headers": (("Content-Type", "text/plain"),),
        "response_body": "ok",
    }
    return Answer(**{**values, **changes})


def ending(claimed: Claim, next_status: str, *, delay_seconds: float = 10.0, **changes: Any) -> Ending:
    """An ending that makes `next_status` of the job: done by a success, else by a failed call."""
    error_class = changes.pop("error_class", None if next_status == "done" else "http_status")
    ended = answer(error_class, **changes)
    return Ending(claimed, ended, next_status, delay_seconds if next_status == "scheduled" else 0.0)  # type: ignore[arg-type]


def to_record(claimed: Claim, worker: UUID, next_status: str, **changes: Any) -> ToRecord:
    return ToRecord(ending(claimed, next_status, **changes), worker)


def lost(claimed: Claim, worker: UUID, next_status: str = "scheduled", lease_ended: bool = False) -> ToRecord:
    """What the rescuer records for an attempt whose worker is gone."""
    return ToRecord(ending(claimed, next_status, error_class="lost", status_code=None), worker, lease_ended)


def as_json(row: RowMapping) -> str:
    """A row as text, to compare what two looks saw."""
    return json.dumps(dict(row), default=repr, sort_keys=True)


__all__ = ["Scene", "answer", "as_json", "ending", "lost", "make_client", "make_entry", "make_job", "make_worker"]
__all__ += ["now", "shifted", "to_record"]
