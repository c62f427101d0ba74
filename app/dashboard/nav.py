"""The sidebar: which pages there are, and who sees a link to them."""

from __future__ import annotations

from dataclasses import dataclass

from flask import current_app, request

from app.dashboard.roles import may


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the sidebar. `blueprint` is the page's own under the dashboard's; its first view is `index`."""

    label: str
    blueprint: str
    icon: str
    role: str = "viewer"

    @property
    def endpoint(self) -> str:
        return f"dashboard.{self.blueprint}.index"

    @property
    def is_current(self) -> bool:
        return self.endpoint.rpartition(".")[0] in request.blueprints


GROUPS: tuple[tuple[str | None, tuple[Place, ...]], ...] = (
    (None, (Place("Overview", "overview", "overview"),)),
    (
        "Work",
        (
            Place("Jobs", "jobs", "jobs"),
            Place("Cron entries", "cron", "cron"),
            Place("Dead letters", "dead_letters", "dead"),
            Place("Executions", "executions", "executions"),
            Place("Queues", "queues", "queues"),
        ),
    ),
    (
        "Operate",
        (
            Place("Processes", "processes", "processes"),
            Place("Clients & keys", "clients", "key", "admin"),
            Place("Users", "users", "users", "admin"),
            Place("Audit log", "audit", "audit"),
        ),
    ),
)


def has_endpoint(endpoint: str) -> bool:
    """Whether a page exists in this version."""
    return endpoint in current_app.view_functions


def navigation() -> list[tuple[str | None, list[Place]]]:
    """The groups of the sidebar with the places that exist and that who is signed in may see."""
    groups = []
    for heading, places in GROUPS:
        shown = [place for place in places if has_endpoint(place.endpoint) and may(place.role)]
        if shown:
            groups.append((heading, shown))
    return groups
