"""Which time zones there are, always from the locked tzdata package, never from the host's files."""

import zoneinfo
from functools import cache
from zoneinfo import ZoneInfo

from app.cron.error import CronError

# Hosts update their own zone files when they like; two of them must never disagree about one occurrence. An empty
# path leaves only the tzdata package, for this module and for everything else in the process.
zoneinfo.reset_tzpath(to=())

# Factory and localtime differ from host to host; right/ counts leap seconds, and posix/ repeats what has a name already.
TIMEZONE_NAMES = frozenset(
    name
    for name in zoneinfo.available_timezones()
    if name not in ("Factory", "localtime") and not name.startswith(("right/", "posix/"))
)

_BY_FOLDED_NAME = {name.casefold(): name for name in TIMEZONE_NAMES}
_LONGEST_NAME = 64


@cache
def load_zone(name: str) -> ZoneInfo:
    """The zone of that exact IANA name. Raises CronError for any other text."""
    if name not in TIMEZONE_NAMES:
        raise CronError("timezone", _refusal(name))
    # Not the shared cache of zoneinfo: something may have filled it from the host before the path was emptied.
    return ZoneInfo.no_cache(name)


def _refusal(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        return f"The time zone is longer than {_LONGEST_NAME} characters. Write a name such as Europe/Berlin or UTC."
    meant = _BY_FOLDED_NAME.get(name.casefold())
    if meant is not None:
        return f"Unknown time zone {name!a}. Write it as {meant}: case counts."
    return f"Unknown time zone {name!a}. Write an IANA name such as Europe/Berlin, America/New_York or UTC."
