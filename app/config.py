"""The only reader of the environment: every setting, its default, and the refusal of bad values by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.crash_points import POINTS
from app.redis_client import DISTRIBUTED

Network = IPv4Network | IPv6Network
ENVIRONMENTS = ("local", "production")
LOG_LEVELS = ("debug", "info", "warning", "error")


class ConfigurationError(ValueError):
    """A setting that cannot be used; the message names it and says what it takes."""


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """The HTTP proxy that every callback goes through."""

    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the three programs are told from outside. Spans are in seconds."""

    environment: str = "local"
    database_url: str | None = None
    redis_url: str | None = None
    redis_prefix: str = "punctual"
    secret_key: str | None = None
    data_dir: Path = Path("var")
    host: str = "127.0.0.1"
    port: int = 4000
    receiver_port: int = 8080
    web_workers: int = 2
    database_pool_size: int = 10
    rate_limit_per_minute: int = 1200
    max_body_bytes: int = 1 << 20
    retention_days: int = 30
    dead_retention_days: int = 90
    allowed_callback_cidrs: tuple[Network, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()
    metrics_token: str | None = None
    worker_concurrency: int = 128
    worker_processes: int = 1
    shutdown_grace_seconds: float = 20.0
    ca_bundle: str | None = None
    circuit_breaker: bool = False
    probe_port: int | None = None
    crash_points: tuple[tuple[str, float], ...] = ()
    egress_proxy: EgressProxy | None = None
    otlp_endpoint: str | None = None
    sentry_dsn: str | None = field(default=None, repr=False)
    log_level: str = "info"
    log_json: bool = False

    @property
    def is_production(self) -> bool:
        return self.environment == "production"

    @property
    def leaving_file(self) -> Path:
        """While it is there, web is not ready: who stops web makes it some seconds before, so that proxies look elsewhere."""
        return self.data_dir / "leaving"

    def require_stores(self) -> tuple[str, str]:
        """The database's and Redis' URLs. Raises ConfigurationError when one is not set."""
        if not self.database_url:
            raise ConfigurationError("DATABASE_URL is not set: give it as postgresql://user:password@host/database")
        if not self.redis_url:
            raise ConfigurationError("REDIS_URL is not set: give it as redis://host:6379/0")
        return self.database_url, self.redis_url

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Settings read from `environ` (the process's own by default). Raises ConfigurationError."""
        read = _Reader(os.environ if environ is None else environ)
        environment = read.choice("PUNCTUAL_ENV", "local", ENVIRONMENTS)
        production = environment == "production"
        settings = cls(
            environment=environment,
            database_url=read.database_url("DATABASE_URL"),
            redis_url=read.url("REDIS_URL", ("redis", "rediss", "unix", *DISTRIBUTED)),
            redis_prefix=read.prefix("REDIS_PREFIX", "punctual"),
            secret_key=read.text("SECRET_KEY"),
            data_dir=Path(read.text("DATA_DIR") or "var").absolute(),
            host=read.text("HOST") or ("0.0.0.0" if production else "127.0.0.1"),
            port=read.number("PORT", 4000, 1, 65535),
            receiver_port=read.number("RECEIVER_PORT", 8080, 1, 65535),
            web_workers=read.number("WEB_WORKERS", 2, 1, 64),
            database_pool_size=read.number("DATABASE_POOL_SIZE", 10, 1, 200),
            rate_limit_per_minute=read.number("RATE_LIMIT_PER_MINUTE", 1200, 1, 10_000_000),
            retention_days=read.number("RETENTION_DAYS", 30, 1, 36_500),
            dead_retention_days=read.number("DEAD_RETENTION_DAYS", 90, 1, 36_500),
            allowed_callback_cidrs=read.networks("ALLOWED_CALLBACK_CIDRS", "" if production else "127.0.0.0/8,::1/128"),
            trusted_proxies=read.networks("TRUSTED_PROXIES", ""),
            metrics_token=read.text("METRICS_TOKEN"),
            worker_concurrency=read.number("WORKER_CONCURRENCY", 128, 1, 20_000),
            worker_processes=read.number("WORKER_PROCESSES", 1, 1, 64),
            shutdown_grace_seconds=float(read.number("SHUTDOWN_GRACE_SECONDS", 20, 0, 3600)),
            ca_bundle=read.file("CA_BUNDLE"),
            probe_port=read.number("PROBE_PORT", 0, 0, 65535) or None,
            crash_points=read.shares("CRASH_POINTS", POINTS),
            circuit_breaker=read.choice("CIRCUIT_BREAKER", "off", ("on", "off")) == "on",
            egress_proxy=read.proxy("EGRESS_PROXY"),
            otlp_endpoint=read.url("OTEL_EXPORTER_OTLP_ENDPOINT", ("http", "https")),
            sentry_dsn=read.text("SENTRY_DSN"),
            log_level=read.choice("LOG_LEVEL", "info", LOG_LEVELS),
            log_json=read.choice("LOG_FORMAT", "json" if production else "text", ("json", "text")) == "json",
        )
        if production and settings.crash_points:
            raise ConfigurationError("CRASH_POINTS is set: it is for tests of faults, and refused in production")
        if production and not settings.secret_key:
            raise ConfigurationError(
                "SECRET_KEY is not set: production needs one value, the same for every web process"
            )
        return settings


def child_environment(**overrides: str) -> dict[str, str]:
    """A copy of this process's environment with `overrides`, for the processes that `flask up` and the tests start."""
    return {**os.environ, **overrides}


class _Reader:
    """Reads one variable at a time; NAME_FILE names a file whose stripped content is the value of NAME, for secrets."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str) -> str | None:
        value = self._environ.get(name)
        path = self._environ.get(f"{name}_FILE")
        if value and path:
            raise ConfigurationError(f"{name} and {name}_FILE are both set: give one of them")
        if path:
            try:
                value = Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{name}_FILE cannot be read: {error}") from error
            if not value.strip():
                raise ConfigurationError(f"{name}_FILE names {path!r}, which is empty: put the value of {name} into it")
        return value.strip() or None if value else None

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise ConfigurationError(f"{name} is {value!r}: it takes one of {', '.join(choices)}")
        return value

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        text = self.text(name) or str(default)
        if not (text.isascii() and text.isdigit() and lowest <= int(text) <= highest):
            raise ConfigurationError(f"{name} is {text!r}: it takes a whole number from {lowest} to {highest}")
        return int(text)

    def networks(self, name: str, default: str) -> tuple[Network, ...]:
        text = self.text(name)
        parts = (default if text is None else text).replace(",", " ").split()
        if parts == ["none"]:
            return ()
        try:
            return tuple(ip_network(part) for part in parts)
        except ValueError as error:
            raise ConfigurationError(f"{name}: {error}; it takes networks such as 10.0.0.0/8, with commas") from error

    def shares(self, name: str, known: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        """`a:0.1,b:1`: a share from 0 to 1 for each of some names."""
        found = []
        for part in (self.text(name) or "").replace(",", " ").split():
            key, _, share = part.partition(":")
            if key not in known or re.fullmatch(r"0?\.[0-9]+|[01]", share) is None:
                raise ConfigurationError(
                    f"{name} holds {part!r}: it takes {'|'.join(known)}, a colon and a share from 0 to 1"
                )
            found.append((key, float(share)))
        return tuple(found)

    def prefix(self, name: str, default: str) -> str:
        value = self.text(name) or default
        if not (value.isascii() and value.replace("-", "").replace("_", "").replace(".", "").isalnum()):
            raise ConfigurationError(f"{name} is {value!r}: it takes letters, digits, dots, hyphens and underscores")
        return value

    def url(self, name: str, schemes: tuple[str, ...]) -> str | None:
        value = self.text(name)
        if value is not None and urlsplit(value).scheme not in schemes:
            raise ConfigurationError(
                f"{name} takes an address that begins with {' or '.join(s + '://' for s in schemes)}"
            )
        return value

    def proxy(self, name: str) -> EgressProxy | None:
        """The message never quotes the value: it may hold a password."""
        value = self.text(name)
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.scheme != "http" or parts.path.strip("/") or parts.query or parts.fragment:
            raise ConfigurationError(f"{name} takes http://host:port, or http://user:password@host:port")
        user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
        return EgressProxy(host, port, user, password)

    def database_url(self, name: str) -> str | None:
        """A PostgreSQL URL in the form SQLAlchemy takes for psycopg 3."""
        value = self.url(name, ("postgresql", "postgres", "postgresql+psycopg"))
        return None if value is None else "postgresql+psycopg://" + value.split("://", 1)[1]

    def file(self, name: str) -> str | None:
        value = self._environ.get(name) or None
        if value is not None and not Path(value).is_file():
            raise ConfigurationError(f"{name} names {value!r}, which is no file")
        return value
