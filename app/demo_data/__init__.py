"""Believable data for the dashboard: what `make demo` puts into the database that it brings itself, and into no other."""

from app.demo_data.filling import fill, refusal

__all__ = ["fill", "refusal"]
