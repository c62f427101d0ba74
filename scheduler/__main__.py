"""`python -m scheduler`: start any number; one leads."""

from __future__ import annotations

import sys

from app import crash_points
from app.config import ConfigurationError, Settings
from app.error_reports import start_error_reports
from app.logs import configure_logging
from app.process import stop_on_signals
from scheduler.run import Scheduler


def main() -> int:
    try:
        settings = Settings.from_env()
        settings.require_stores()
        start_error_reports(settings, "scheduler")
    except ConfigurationError as error:
        print(f"scheduler: {error}", file=sys.stderr)
        return 2
    configure_logging(settings)
    crash_points.arm(dict(settings.crash_points))
    return Scheduler(settings, stop_on_signals()).run()


if __name__ == "__main__":
    sys.exit(main())
