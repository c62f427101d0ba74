"""The first job of `flask up`: submitted over the API like any other, to the demo receiver."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address
from typing import Any

import requests

from app.config import Settings
from app.credentials import Credentials

DELIVERED_WITHIN_SECONDS = 30.0
ENDED = ("done", "dead", "cancelled")


def base_url(settings: Settings) -> str:
    """Where this machine reaches the web program."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


class FirstJob:
    """Speaks to the web program of this machine, past any proxy that the environment names."""

    def __init__(self, settings: Settings, credentials: Credentials) -> None:
        self._url = base_url(settings)
        self._may_call_here = any(ip_address("127.0.0.1") in network for network in settings.allowed_callback_cidrs)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {credentials.api_key}"

    def close(self) -> None:
        """An open connection would hold up the web program's stop."""
        self._session.close()

    def is_web_healthy(self) -> bool:
        try:
            return self._session.get(f"{self._url}/healthz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def deliver(self, receiver_port: int, wait: Callable[[float], bool]) -> str:
        """Submits the job and follows it. Returns a sentence on how it went, whatever went wrong.

        `wait` sleeps for so many seconds, and returns True when there is no more time for this.
        """
        if not self._may_call_here:
            return "No first job was sent: ALLOWED_CALLBACK_CIDRS does not open 127.0.0.1, where the demo receiver listens."
        callback_url = f"http://127.0.0.1:{receiver_port}/hook"
        request = {"type": "demo.hello", "payload": {"message": "Hello from Punctual"}, "callback_url": callback_url}
        try:
            answer = self._session.post(f"{self._url}/v1/jobs", json=request, timeout=10)
            if answer.status_code != 201:
                return f"The first job was refused ({answer.status_code}): {answer.text.strip()}"
            return self._follow(str(answer.json()["id"]), callback_url, wait)
        except requests.RequestException as error:
            return f"The first job could not be followed: {error}"

    def _follow(self, job_id: str, callback_url: str, wait: Callable[[float], bool]) -> str:
        deadline = time.monotonic() + DELIVERED_WITHIN_SECONDS
        job: dict[str, Any] = {"status": "unknown"}
        while time.monotonic() < deadline:
            job = self._session.get(f"{self._url}/v1/jobs/{job_id}", timeout=10).json()
            if job["status"] in ENDED:
                break
            if wait(0.05):
                return "Stopped before the first job was delivered."
        if job["status"] != "done":
            why = f" ({job['last_error']})" if job.get("last_error") else ""
            return f"The first job is {job['status']}, not done{why}: {self._url}/v1/jobs/{job_id}"
        seconds = instant(job["finished_at"]) - instant(job["created_at"])
        return f"First job delivered: {callback_url} answered {job['last_status_code']}, {seconds * 1000:.0f} ms after it was submitted."


def instant(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 instant."""
    return datetime.fromisoformat(text).timestamp()
