"""The tables. PostgreSQL only: its types and constraints are used freely."""

from __future__ import annotations

from app.models.bulk import BulkOperation
from app.models.circuits import Circuit
from app.models.cron import CronEntry, CronOccurrence, CronTotal
from app.models.declarative import Base
from app.models.jobs import FINISHED, STATUSES, UNCLAIMED, Execution, Job, JobRevision
from app.models.operations import AuditEntry, Leader, MinuteStat, Process
from app.models.queues import Queue
from app.models.tenants import ROLES, ApiKey, Client, User

__all__ = [
    "FINISHED",
    "ROLES",
    "STATUSES",
    "UNCLAIMED",
    "ApiKey",
    "AuditEntry",
    "Base",
    "BulkOperation",
    "Circuit",
    "Client",
    "CronEntry",
    "CronOccurrence",
    "CronTotal",
    "Execution",
    "Job",
    "JobRevision",
    "Leader",
    "MinuteStat",
    "Process",
    "Queue",
    "User",
]
