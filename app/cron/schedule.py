"""The instants a cron expression names in a time zone, by cronie's rule for changes of the clock.

croniter is not asked for them. Its wall times agree with ours (tests/test_cron_brute_force.py), but one costs it 55 to
170 us where this walk takes a few, and rare dates far more: ten times of `0 0 29 2 */7` took it 11.5 ms and ten of
`0 0 31 2 1` 19 ms, against the 5 ms a preview may take. It also reads `5-5` as the whole field.
"""

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from app.cron.fields import CronFields
from app.cron.wall_clock import (
    first_instant_at,
    instant_showing,
    just_before,
    latest_wall_by,
    set_back_ahead,
    wall_at,
)

# A day's distance from what datetime can hold, at both ends, so that no offset can carry a time over it.
_FIRST = datetime(1, 1, 2, tzinfo=UTC)
_LAST = datetime(9999, 1, 2, tzinfo=UTC)
_LAST_YEAR = 9998


@dataclass(frozen=True)
class Schedule:
    """An expression in a time zone. Made by `parse`; equal when both texts are.

    Which instants it names (the rule of cronie):
    - one that follows the wall clock runs whenever the clock shows a time it names: never in skipped minutes, in both
      passes of repeated ones;
    - any other runs once for each time it names: in the first pass when that is repeated, at the first instant after
      the jump when it is skipped. Several that meet there are one.
    """

    expression: str
    timezone: str
    fields: CronFields = field(repr=False, compare=False)
    zone: ZoneInfo = field(repr=False, compare=False)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first instant strictly later than `instant`, in UTC; None when it would be after the year 9998.

        Depends on nothing but its argument, so a stored instant gives the same next as a running iteration.
        Raises ValueError for a naive `instant`.
        """
        if instant.tzinfo is None:
            raise ValueError("a cron time is counted from an aware datetime")
        if instant >= _LAST:
            return None
        instant = max(instant, _FIRST).astimezone(UTC)
        return self._next_on_the_clock(instant) if self.fields.follows_wall_clock else self._next_once(instant)

    def iter_after(self, instant: datetime) -> Iterator[datetime]:
        """Every instant strictly later than `instant`, in order, none twice."""
        following = self.next_after(instant)
        while following is not None:
            yield following
            following = self.next_after(following)

    def upcoming(self, instant: datetime, count: int) -> list[datetime]:
        """The next `count` instants; fewer at the end of the calendar."""
        return list(islice(self.iter_after(instant), count))

    def _next_once(self, instant: datetime) -> datetime | None:
        # What the clock has shown by now has run; what it first shows later, or jumps over, is to come.
        wall = _next_wall(self.fields, latest_wall_by(self.zone, instant))
        return None if wall is None else first_instant_at(self.zone, wall)

    def _next_on_the_clock(self, instant: datetime) -> datetime | None:
        candidates = [self._showing_after(instant, wall_at(self.zone, instant))]
        set_back_at = set_back_ahead(self.zone, instant)
        if set_back_at is not None:
            candidates.append(self._showing_after(instant, just_before(wall_at(self.zone, set_back_at))))
        return min((candidate for candidate in candidates if candidate is not None), default=None)

    def _showing_after(self, instant: datetime, wall: datetime) -> datetime | None:
        """When the clock, after `instant`, shows the first of our times later than `wall` that is not skipped."""
        following = _next_wall(self.fields, wall)
        while following is not None:
            shown_at = instant_showing(self.zone, following, after=instant)
            if shown_at is not None:
                return shown_at
            end_of_gap = wall_at(self.zone, first_instant_at(self.zone, following))
            following = _next_wall(self.fields, just_before(end_of_gap))
        return None


def _next_wall(fields: CronFields, wall: datetime) -> datetime | None:
    """The first wall time the fields name that is strictly later than `wall`; None after the last year."""
    if wall.year > _LAST_YEAR:
        return None
    day: date | None = wall.date()
    if wall.month in fields.months and fields.fall_on(wall.date()):
        hour, minute = wall.hour, bisect_right(fields.minutes, wall.minute)
        if hour in fields.hours and minute < len(fields.minutes):
            return wall.replace(minute=fields.minutes[minute], second=0, microsecond=0)
        later = bisect_right(fields.hours, hour)
        if later < len(fields.hours):
            return wall.replace(hour=fields.hours[later], minute=fields.minutes[0], second=0, microsecond=0)
    day = _next_day(fields, wall.date())
    return None if day is None else datetime(day.year, day.month, day.day, fields.hours[0], fields.minutes[0])


def _next_day(fields: CronFields, after: date) -> date | None:
    numbers = fields.days if fields.are_days_anded else range(1, 32)
    year, month, first = after.year, after.month, after.day + 1
    while year <= _LAST_YEAR:
        if month in fields.months:
            length = monthrange(year, month)[1]
            for number in numbers:
                if first <= number <= length and fields.fall_on(day := date(year, month, number)):
                    return day
        year, month, first = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
    return None
