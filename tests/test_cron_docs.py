"""docs/cron.md says what the code does: its table of clock changes, its limits and its defaults."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.api.schemas_cron import CronJobDefinition
from app.cron import parse
from app.models.cron import CATCH_UP_POLICIES, OCCURRENCE_STATUSES, OVERLAP_POLICIES, SKIP_REASONS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "cron.md").read_text(encoding="utf-8")
BERLIN = ZoneInfo("Europe/Berlin")
DAYS = (datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 10, 25, tzinfo=BERLIN))
ROWS = re.findall(
    r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE[PAGE.index("the gap") : PAGE.index("## Fields")], re.MULTILINE
)


def local_times(expression: str, day: datetime) -> str:
    shown = []
    for instant in parse(expression, "Europe/Berlin").iter_after(day - timedelta(seconds=1)):
        local = instant.astimezone(BERLIN)
        if local.date() != day.date() or local.hour >= 5:
            break
        shown.append(f"{local:%H:%M%z}"[:-2])
    return ", ".join(shown) or "none"


@pytest.mark.parametrize(("expression", "gap", "repeat"), ROWS)
def test_the_table_of_clock_changes_is_true(expression: str, gap: str, repeat: str) -> None:
    assert [gap, repeat] == [local_times(expression, day) for day in DAYS]


def test_the_page_has_the_table_and_every_word_of_the_api() -> None:
    assert len(ROWS) == 5
    for word in (
        *OVERLAP_POLICIES,
        *CATCH_UP_POLICIES,
        *OCCURRENCE_STATUSES,
        *SKIP_REASONS,
        *CronJobDefinition.model_fields,
    ):
        assert f"`{word}`" in PAGE, word
