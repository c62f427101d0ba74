"""Which jobs a list, or a change of many, is about."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema

from app.api.schemas import PLAIN_TEXT, EntryId, IdempotencyKey, InstantIn, JobType, Omittable, QueryModel, absent
from app.api.schemas_jobs import PageQuery
from app.models import STATUSES


def _statuses(value: Any) -> tuple[str, ...]:
    """Several, with commas between."""
    given = value if isinstance(value, list) else str(value).split(",")
    found = tuple(dict.fromkeys(str(part).strip() for part in given))
    if not set(found) <= set(STATUSES):
        raise ValueError(f"must be of {', '.join(STATUSES)}, with commas between several")
    return found


Statuses = Annotated[
    tuple[str, ...],
    PlainValidator(_statuses),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^({'|'.join(STATUSES)})(,({'|'.join(STATUSES)}))*$",
            "example": "dead,cancelled",
        }
    ),
]
Words = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=PLAIN_TEXT)]


class JobFilterFields(QueryModel):
    """Which jobs are meant: those that match everything that is given."""

    repeatable: ClassVar = frozenset({"status"})

    status: Omittable[Statuses] = Field(default_factory=absent)
    type: Omittable[JobType] = Field(default_factory=absent)
    queue: Omittable[Words] = Field(default_factory=absent)
    tag: Omittable[Words] = Field(default_factory=absent)
    cron_job_id: Omittable[EntryId] = Field(default_factory=absent)
    callback_host: Omittable[Words] = Field(
        default_factory=absent,
        description="example.com, with a port where it is not the usual one, or https://example.com.",
    )
    error_class: Omittable[Words] = Field(default_factory=absent)
    created_from: Omittable[InstantIn] = Field(default_factory=absent)
    created_to: Omittable[InstantIn] = Field(default_factory=absent, description="Exclusive.")
    run_at_from: Omittable[InstantIn] = Field(default_factory=absent)
    run_at_to: Omittable[InstantIn] = Field(default_factory=absent, description="Exclusive.")
    idempotency_key: Omittable[IdempotencyKey] = Field(default_factory=absent)


class JobsQuery(JobFilterFields, PageQuery):
    """A page of them."""
