"""The one error of this package."""

from typing import Literal


class CronError(ValueError):
    """A cron expression or a time zone that is refused; the message tells the user what to write instead."""

    def __init__(self, field: Literal["cron_expression", "timezone"], message: str) -> None:
        super().__init__(message)
        self.field = field
