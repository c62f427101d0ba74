"""Cron expressions, pure: reading them, the instants they name in a time zone, and saying them in plain words."""

from functools import lru_cache

from app.cron.description import describe
from app.cron.error import CronError
from app.cron.fields import read_expression
from app.cron.schedule import Schedule
from app.cron.zones import TIMEZONE_NAMES, load_zone

__all__ = ["TIMEZONE_NAMES", "CronError", "Schedule", "describe", "parse"]


def parse(expression: str, timezone: str) -> Schedule:
    """The schedule that `expression` names in `timezone`; the same object again while it is cached.

    Raises CronError, whose `field` says which of the two texts is at fault. Its message is fit for a user.
    """
    return _parse(expression, timezone)


# 4,096 pairs: the distinct expressions of a large installation, at about 2 KB each.
@lru_cache(maxsize=4096)
def _parse(expression: str, timezone: str) -> Schedule:
    return Schedule(expression, timezone, read_expression(expression), load_zone(timezone))
