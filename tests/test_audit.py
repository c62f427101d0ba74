"""The audit log: a note goes with the change it is about."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine, text

from app import audit
from app.database import transaction


def test_a_change_is_noted_with_who_and_what(engine: Engine, db_conn: Connection) -> None:
    with transaction(engine) as conn:
        audit.record(conn, "user", "ada", None, "job.cancel", "job", "7", {"status": "pending"}, "198.51.100.7")
    row = db_conn.execute(text("SELECT * FROM audit_log")).mappings().one()
    assert (row["actor_kind"], row["actor"], row["action"]) == ("user", "ada", "job.cancel")
    assert (row["target_kind"], row["target_id"], row["detail"]) == ("job", "7", {"status": "pending"})
    assert (row["client_id"], row["address"]) == (None, "198.51.100.7")


def test_a_change_that_is_undone_leaves_no_note(engine: Engine, db_conn: Connection) -> None:
    with pytest.raises(RuntimeError), transaction(engine) as conn:
        audit.record(conn, "user", "ada", None, "job.cancel", "job", "7")
        raise RuntimeError
    assert db_conn.execute(text("SELECT count(*) FROM audit_log")).scalar_one() == 0


def test_a_note_too_long_is_cut(engine: Engine, db_conn: Connection) -> None:
    with transaction(engine) as conn:
        audit.record(conn, "user", "a" * 300, None, "job.cancel", "job", "7" * 300, address="1" * 300)
    row = db_conn.execute(text("SELECT length(actor), length(target_id), length(address) FROM audit_log")).one()
    assert tuple(row) == (128, 128, 64)
