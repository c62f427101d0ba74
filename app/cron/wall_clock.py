"""Between instants and what a clock on the wall of a time zone shows.

Wall times are naive datetimes. Python's `fold` does the lookups (PEP 495: in a gap, fold 0 takes the offset before the
jump and fold 1 the one after; in a repeat, fold 0 is the first pass). That is exact as long as no two changes of a zone
overlap, which holds for every zone of tzdata (tests/test_cron.py asks them all). Changes fall on whole seconds.
"""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_TICK = timedelta.resolution


def wall_at(zone: ZoneInfo, instant: datetime) -> datetime:
    """What the clock shows at `instant`."""
    return instant.astimezone(zone).replace(tzinfo=None)


def latest_wall_by(zone: ZoneInfo, instant: datetime) -> datetime:
    """The latest time the clock has shown by `instant`: later than what it shows while an hour is being repeated."""
    local = instant.astimezone(zone)
    if not local.fold:
        return local.replace(tzinfo=None)
    shift = _shift(local)
    changed_at = _change(zone, instant - shift, instant)
    return wall_at(zone, changed_at) + shift - _TICK


def first_instant_at(zone: ZoneInfo, wall: datetime) -> datetime:
    """When the clock first shows `wall`, or, when it is skipped, the first instant after the jump."""
    first, second = _instant(zone, wall, 0), _instant(zone, wall, 1)
    if wall_at(zone, first) == wall:
        return first
    return _change(zone, second, first)


def instant_showing(zone: ZoneInfo, wall: datetime, after: datetime) -> datetime | None:
    """The first instant later than `after` at which the clock shows `wall`; None when it does not show it again."""
    for fold in (0, 1):
        instant = _instant(zone, wall, fold)
        if instant > after and wall_at(zone, instant) == wall:
            return instant
    return None


def set_back_ahead(zone: ZoneInfo, instant: datetime) -> datetime | None:
    """When the clock will be set back to what it shows at `instant` or earlier; None when it will not."""
    local = instant.astimezone(zone)
    if local.fold or not _shift(local):
        return None
    return _change(zone, instant, instant + _shift(local))


def just_before(wall: datetime) -> datetime:
    """For a search that takes what is strictly later, to find `wall` itself."""
    return wall - _TICK


def _instant(zone: ZoneInfo, wall: datetime, fold: int) -> datetime:
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def _shift(local: datetime) -> timedelta:
    """By how much the clock is set back in the repeat that `local` is part of; zero outside one."""
    first, second = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    assert first is not None and second is not None
    return first - second


def _change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first instant after `low` and up to `high` with another offset than at `low`: exactly one change lies there."""
    low = low.replace(microsecond=0)
    offset = low.astimezone(zone).utcoffset()

    def has_changed(seconds: int) -> bool:
        return (low + timedelta(seconds=seconds)).astimezone(zone).utcoffset() != offset

    span = int((high - low).total_seconds())
    return low + timedelta(seconds=bisect_left(range(span), True, key=has_changed))
