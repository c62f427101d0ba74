"""`python -m app.healthcheck`: whether the program of this container lives, for Docker's HEALTHCHECK. Exit status 0 or 1.

Web is asked on PORT, a worker or scheduler on PROBE_PORT. It is /livez that is asked: a store that is away is no fault of the program's.
"""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException

from app.config import ConfigurationError, Settings

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
SECONDS = 4.0


def main() -> int:
    try:
        settings = Settings.from_env()
    except ConfigurationError as error:
        print(f"healthcheck: {error}", file=sys.stderr)
        return 1
    host, port = ANY_ADDRESS.get(settings.host, settings.host), settings.probe_port or settings.port
    connection = HTTPConnection(host, port, timeout=SECONDS)
    try:
        connection.request("GET", "/livez")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        print(f"healthcheck: {host} port {port}: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
