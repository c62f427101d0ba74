"""The only writer of jobs.status: each change is one conditional UPDATE that names the statuses it may leave."""

from app.jobs.changes import cancel, request_cancel, retry, run_now
from app.jobs.claim import Claimed, bury_unclaimable, claim, extend_leases, take_up
from app.jobs.claim_limited import ClaimedLimited, claim_limited
from app.jobs.edit import JobEdit, edit
from app.jobs.hand_back import HandedBack, hand_back
from app.jobs.record import Recorded, ToRecord, record
from app.jobs.requests import Changed, JobRequest, Submitted
from app.jobs.submit import enqueue, submit
from app.jobs.submit_batch import submit_batch

__all__ = [
    "Changed",
    "Claimed",
    "ClaimedLimited",
    "HandedBack",
    "JobEdit",
    "JobRequest",
    "Recorded",
    "Submitted",
    "ToRecord",
    "bury_unclaimable",
    "cancel",
    "claim",
    "claim_limited",
    "edit",
    "enqueue",
    "extend_leases",
    "hand_back",
    "record",
    "request_cancel",
    "retry",
    "run_now",
    "submit",
    "submit_batch",
    "take_up",
]
