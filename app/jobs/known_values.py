"""Which types, callback hosts and error classes jobs have: for choices in a filter. Each value costs one look into an index."""

from __future__ import annotations

import re

from sqlalchemy import Connection, Engine, text

from app.callback_url import DEFAULT_PORTS
from app.database import autocommit

MOST = 200
_END_OF_HOST = re.compile(r"[/?#]")

# An index is stepped through from value to value: 1,000,000 rows of 20 types cost 21 look-ups.
_STEPS = """
    WITH RECURSIVE known AS (
      (SELECT {column} AS value FROM jobs WHERE {column} IS NOT NULL ORDER BY {column} LIMIT 1)
      UNION ALL
      SELECT (SELECT {column} FROM jobs WHERE {column} > known.value ORDER BY {column} LIMIT 1) FROM known
      WHERE known.value IS NOT NULL
    )
    SELECT value FROM known WHERE value IS NOT NULL LIMIT :most
"""
TYPES = text(_STEPS.format(column="type"))
HOSTS = text(_STEPS.format(column="callback_host"))
ERROR_CLASSES = text(_STEPS.format(column="last_error_class"))


def types(engine: Engine) -> list[str]:
    """The first MOST types, in order."""
    with autocommit(engine) as conn:
        return list(conn.execute(TYPES, {"most": MOST}).scalars())


def hosts(engine: Engine) -> list[str]:
    """The first MOST callback hosts as keys such as https://example.com:443, in order."""
    with autocommit(engine) as conn:
        return _hosts(conn)


def error_classes(engine: Engine) -> list[str]:
    with autocommit(engine) as conn:
        return list(conn.execute(ERROR_CLASSES, {"most": MOST}).scalars())


def host_keys(engine: Engine, host: str) -> tuple[str, ...]:
    """The keys that a host stands for: of a full key itself, of a name or name:port those with any scheme (and port)."""
    host = host.strip().lower()
    if "://" in host:
        return (host if _has_port(host) else f"{host}:{DEFAULT_PORTS.get(host.partition('://')[0], 443)}",)
    keys = {
        f"{scheme}://{host}" if _has_port(host) else f"{scheme}://{host}:{port}"
        for scheme, port in DEFAULT_PORTS.items()
    }
    with autocommit(engine) as conn:
        keys.update(key for key in _hosts(conn) if key.partition("://")[2].rpartition(":")[0] == host)
    return tuple(sorted(keys))


def shown_host(key: str) -> str:
    """A key as people write it: https and default ports left out."""
    scheme, separator, rest = key.partition("://")
    if not separator:
        return key
    host, _, port = rest.rpartition(":")
    named = host if port == str(DEFAULT_PORTS.get(scheme)) else rest
    return named if scheme == "https" else f"{scheme}://{named}"


def host_of(url: str) -> str:
    """The host of a callback URL in the same form. Never raises: a page of jobs must not fail on one row."""
    scheme, _, rest = url.partition("://")
    authority = _END_OF_HOST.split(rest, maxsplit=1)[0]
    port = "" if _has_port(authority) else f":{DEFAULT_PORTS.get(scheme, 443)}"
    return shown_host(f"{scheme}://{authority}{port}")


def _hosts(conn: Connection) -> list[str]:
    return list(conn.execute(HOSTS, {"most": MOST}).scalars())


def _has_port(host: str) -> bool:
    after = host.rpartition("]")[2].rpartition("://")[2]
    return after.rpartition(":")[2].isdigit() and ":" in after
