"""The declarative class of every model, the constraint names, and the SQL function that tells the time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import DateTime, MetaData, func
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.sql.functions import Function

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Instant = Annotated[datetime, mapped_column(DateTime(timezone=True))]


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


def db_now() -> Function[Any]:
    """PostgreSQL's time through the schema's one function (C1). Tests shift it; nothing else can."""
    return func.punctual_now(type_=DateTime(timezone=True))
