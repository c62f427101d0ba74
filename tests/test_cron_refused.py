"""What may be written as a cron expression and a time zone, and what each refusal advises."""

import zoneinfo
from datetime import UTC, datetime

import pytest

from app.cron import CronError, parse

AFTER = datetime(2026, 1, 1, tzinfo=UTC)

SAME_SCHEDULES = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@Weekly", "0 0 * * SUN"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 JAN *"),
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * fri-SUN", "0 0 * * 5,6,0"),
    ("0 0 * * 0-7", "0 0 * * 0-6"),
    ("0 0 * * 7-2", "0 0 * * SUN,MON,TUE"),
    ("0 0 * * 1-7/2", "0 0 * * 1,3,5,7"),
    ("0 0 * * SUN-SUN", "0 0 * * 0"),
    ("0 0 1 Jan-mAr,12 *", "0 0 1 1,2,3,DEC *"),
    ("5-5 * * * *", "5 * * * *"),
    ("05 007 * * *", "5 7 * * *"),
    ("10/20 * * * *", "10,30,50 * * * *"),
    ("59/15 * * * *", "59 * * * *"),
    ("0 0 7/2 * 1-6", "0 0 7,9,11,13,15,17,19,21,23,25,27,29,31 * 1-6"),
    ("0 0 * * 7/2", "0 0 * * 0,2,4,6"),
    ("*/60 */24 * * *", "0 0 * * *"),
    ("0 0 */31 * *", "0 0 1 * *"),
    ("  0   0 * * * ", "0 0 * * *"),
    ("0 0 1-31 * MON", "0 0 * * *"),
]


@pytest.mark.parametrize(("expression", "same_as"), SAME_SCHEDULES)
def test_spellings_of_one_schedule(expression: str, same_as: str) -> None:
    assert parse(expression, "UTC").upcoming(AFTER, 40) == parse(same_as, "UTC").upcoming(AFTER, 40)


REFUSED_EXPRESSIONS = [
    ("0 0 31 2 *", "never comes"),
    ("0 0 31 4,6,9,11 *", "never comes"),
    ("0 0 30 FEB */2", "never comes"),
    ("10 0 1-5 * 2#2", "# L W ? H R"),
    ("0 0 L * *", "# L W ? H R"),
    ("0 0 15W * *", "# L W ? H R"),
    ("0 0 LW * *", "# L W ? H R"),
    ("0 0 ? * MON", "# L W ? H R"),
    ("0 0 * * 5L", "# L W ? H R"),
    ("R R * * *", "# L W ? H R"),
    ("H H * * *", "# L W ? H R"),
    ("H/5 * * * *", "# L W ? H R"),
    ("H(0-29)/10 * * * *", "# L W ? H R"),
    ("0 0 12 * * *", "five fields"),
    ("0 0 12 * * ? *", "five fields"),
    ("0 0 * *", "five fields"),
    ("", "five fields"),
    ("   ", "five fields"),
    ("*/0 * * * *", "from 1 to 60"),
    ("*/61 * * * *", "from 1 to 60"),
    ("0 */25 * * *", "from 1 to 24"),
    ("0 0 1-31/32 * *", "from 1 to 31"),
    ("0 0 1 */13 *", "from 1 to 12"),
    ("0 0 * * */8", "from 1 to 7"),
    ("60 * * * *", "number from 0 to 59"),
    ("0 24 * * *", "number from 0 to 23"),
    ("0 0 0 * *", "number from 1 to 31"),
    ("0 0 1-32 * *", "number from 1 to 31"),
    ("0 0 1 13 *", "number from 1 to 12 or a name from JAN to DEC"),
    ("0 0 1 0 *", "number from 1 to 12"),
    ("0 0 * * 8", "number from 0 to 7 or a name from SUN to SAT"),
    ("0 0 * * MONDAY", "name from SUN to SAT"),
    ("0 0 * JANUARY *", "name from JAN to DEC"),
    ("MON * * * *", "number from 0 to 59"),
    ("0 22-2 * * *", "22-23,0-2"),
    ("0 0 * * FRI-MON", "5-6,0-1"),
    ("0 0 * NOV-FEB *", "11-12,1-2"),
    ("-1 * * * *", "cannot read"),
    ("+1 * * * *", "cannot read"),
    ("1.5 * * * *", "cannot read"),
    ("1, * * * *", "cannot read"),
    (",1 * * * *", "cannot read"),
    ("1-2-3 * * * *", "cannot read"),
    ("1-* * * * *", "cannot read"),
    ("*5 * * * *", "cannot read"),
    ("** * * * *", "cannot read"),
    ("*/ * * * *", "cannot read"),
    ("/5 * * * *", "cannot read"),
    ("*/5/5 * * * *", "cannot read"),
    ("*-5 * * * *", "cannot read"),
    ("0 0 * * *\n", "plain ASCII"),
    ("0\t0\t*\t*\t*", "plain ASCII"),
    ("0 0 * * *\x00", "plain ASCII"),
    ("0\u00a00 * * *", "plain ASCII"),
    ("\u0665 0 * * *", "plain ASCII"),
    ("0 0 * * \u017fun", "plain ASCII"),
    ("@reboot", "@hourly, @daily, @weekly, @monthly, @yearly"),
    ("@midnight", "@daily"),
    ("@annually", "@yearly"),
    ("@daily @daily", "five fields"),
    ("@", "five fields"),
    (",".join("0" * 200) + " * * * *", "longer than 255"),
]


@pytest.mark.parametrize(("expression", "advice"), REFUSED_EXPRESSIONS)
def test_an_expression_is_refused_with_advice(expression: str, advice: str) -> None:
    with pytest.raises(CronError) as refusal:
        parse(expression, "UTC")
    assert refusal.value.field == "cron_expression"
    assert advice in str(refusal.value)


REFUSED_TIMEZONES = [
    ("America", "IANA name"),
    ("../../etc/passwd", "IANA name"),
    ("Europe/Berlin\x00", "IANA name"),
    ("Mars/Phobos", "IANA name"),
    ("localtime", "IANA name"),
    ("Factory", "IANA name"),
    ("right/Europe/Berlin", "IANA name"),
    ("posix/Europe/Berlin", "IANA name"),
    ("posixrules", "IANA name"),
    ("UTC+3", "IANA name"),
    ("", "IANA name"),
    ("europe/BERLIN", "Write it as Europe/Berlin"),
    ("Europe/Berlin ", "IANA name"),
    ("a" * 300, "longer than 64"),
]


@pytest.mark.parametrize(("timezone", "advice"), REFUSED_TIMEZONES)
def test_a_time_zone_is_refused_with_advice(timezone: str, advice: str) -> None:
    with pytest.raises(CronError) as refusal:
        parse("0 0 * * *", timezone)
    assert refusal.value.field == "timezone"
    assert advice in str(refusal.value)


def test_a_longest_expression_of_255_characters_is_read() -> None:
    expression = ",".join(["0"] * 120 + ["10"]) + " 0 * *"
    expression += " " * (254 - len(expression)) + "*"
    assert len(expression) == 255
    assert parse(expression, "UTC").next_after(AFTER) == datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def test_zones_are_read_from_the_locked_package_only() -> None:
    assert zoneinfo.TZPATH == ()
