"""How commands print rows: columns as wide as they need, one row a line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], when_empty: str) -> None:
    """Prints rows under their head, or says that there are none."""
    if not rows:
        click.echo(when_empty, err=True)
        return
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def instant(at: datetime) -> str:
    """An instant in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
