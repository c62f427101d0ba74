"""The small fragment that every open page asks for: whether the machinery works."""

from __future__ import annotations

from flask import Blueprint, render_template

bp = Blueprint("live", __name__, url_prefix="/live")


@bp.get("/health")
def health() -> str:
    return render_template("_health.html")
