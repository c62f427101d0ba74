"""Instants as text."""

from __future__ import annotations

import pytest

from app.instants import format_instant, parse_instant


def test_instants_are_utc_and_have_a_fraction_only_when_there_is_one() -> None:
    assert format_instant(parse_instant("2026-12-01T11:00:00.000+01:00")) == "2026-12-01T10:00:00Z"
    assert format_instant(parse_instant("2026-12-01t10:00:00.1z")) == "2026-12-01T10:00:00.100000Z"
    # Never early: what cannot be kept is rounded up.
    assert format_instant(parse_instant("2026-12-31T23:59:59.9999991-00:00")) == "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01", "2026-12-01 10:00:00Z", "2026-12-01T10:00Z", "2026-12-01T10:00:00+0100", "2026-12-01T10:00:00+24:00",
        "2026-12-01T24:00:00Z", "2026-12-01T10:00:60Z", "2026-12-01T10:00:00.Z", "2026-13-01T10:00:00Z", "+2026-12-01T10:00:00Z",
        "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "2026-12-01T10:00:00Z\n", "２026-12-01T10:00:00Z",
        "9999-12-31T23:59:59.9999999Z",
    ],
)  # fmt: skip
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(ValueError, match="must be|does not exist|outside"):
        parse_instant(text)
