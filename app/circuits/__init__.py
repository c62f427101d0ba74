"""The circuit breaker: calls of a client to a host that keeps failing are held back, and burn no attempt."""

from app.circuits.probing import begin_probe
from app.circuits.recording import Change, Outcome, record
from app.circuits.rules import counts_as_failure

__all__ = ["Change", "Outcome", "begin_probe", "counts_as_failure", "record"]
