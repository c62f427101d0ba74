"""`flask up`: everything of Punctual on one machine, kept running until it is told to stop."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Self

from sqlalchemy.exc import OperationalError

from app import demo_data
from app.child import Child, StartFailed
from app.config import Settings, child_environment
from app.credentials import Credentials, prepare_database, secret_key
from app.database import make_engine
from app.embedded import EmbeddedStores
from app.first_job import FirstJob, base_url
from app.restarts import Restarts, say, shorten

ROOT = Path(__file__).resolve().parent.parent
TICK_SECONDS = 0.2
HEALTHY_SECONDS = 60.0
HOUSEKEEPING_SECONDS = 600.0


def up(settings: Settings, with_demo_data: bool = False) -> int:
    """Runs until Ctrl-C, SIGTERM or SIGHUP. Returns the exit code: 0 after a stop, 1 when the start failed."""
    stop = Stop()
    if with_demo_data and (why := demo_data.refusal(settings)) is not None:
        say(why)
        return 1
    try:
        with Supervisor(settings, stop, with_demo_data) as supervisor:
            supervisor.start()
            supervisor.run()
    except StartFailed as error:
        say(str(error))
        return 1
    return 0


class Stop:
    """`asked` is set by the first signal to stop, `hurry` by a Ctrl-C a second or more after it.

    One request often arrives twice: `make` passes on the SIGTERM that its whole group was sent.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.hurry = threading.Event()
        self._asked_at = 0.0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup has the hang-up ignored, and it stays so. An interrupt is always heard: a script's shell has it ignored
            # for what it starts with `&`, and who sends it all the same means it.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.asked.is_set():
            self._asked_at = time.monotonic()
            self.asked.set()
        elif number == signal.SIGINT and time.monotonic() - self._asked_at > 1.0:
            self.hurry.set()


class Supervisor:
    """Starts the databases that no URL names, then the programs; starts again what dies; stops the databases last."""

    def __init__(self, settings: Settings, stop: Stop, with_demo_data: bool = False) -> None:
        """Raises StartFailed when the data folder is in use."""
        self._settings = settings
        self._stop = stop
        self._with_demo_data = with_demo_data
        self._restarts = Restarts()
        self._housekeeping_at = time.monotonic() + HOUSEKEEPING_SECONDS
        self._stores = EmbeddedStores.in_folder(
            settings.data_dir, postgres=settings.database_url is None, redis=settings.redis_url is None
        )
        self._folder = self._stores.folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_all()

    def start(self) -> None:
        """Up to the first delivered job. Returns early when asked to stop. Raises StartFailed."""
        began = time.monotonic()
        require_free("PORT", self._settings.host, self._settings.port)
        require_free("RECEIVER_PORT", "127.0.0.1", self._settings.receiver_port)
        say("Starting the databases, web, scheduler, worker and a demo receiver ...")
        self._stores.start()
        for child in self._stores.children:
            self._restarts.watch(child)
        if self._stop.asked.is_set():
            return
        environment = self._environment()
        settings = Settings.from_env(environment)
        try:
            credentials = prepare_database(settings, base_url(settings), self._folder)
        except OperationalError as error:
            raise StartFailed(f"The database does not answer: {error.orig}") from error
        for child in self._programs(environment):
            child.start()
            self._restarts.watch(child)
        with closing(FirstJob(settings, credentials)) as first_job:
            is_up = self._wait_for_health(first_job) and self._introduce(first_job, credentials)
        if is_up and self._with_demo_data:
            self._fill(settings)
        if is_up:
            say(f"Started in {time.monotonic() - began:.1f} s. Ctrl-C stops everything; the data stays.")

    def run(self) -> None:
        while not self._stop.asked.wait(TICK_SECONDS):
            self._tick()

    def _environment(self) -> dict[str, str]:
        """The programs' environment: what we were given, and the stores and the secret that we bring."""
        brought = {"DATA_DIR": str(self._folder.path), "PYTHONTZPATH": "", "PYTHONUNBUFFERED": "1"}
        if self._stores.postgres is not None:
            brought["DATABASE_URL"] = self._stores.database_url
        if self._stores.redis is not None:
            brought["REDIS_URL"] = self._stores.redis_url
        if self._settings.secret_key is None:
            brought["SECRET_KEY"] = secret_key(self._folder)
        environment = child_environment(**brought)
        # A variable and its NAME_FILE may not both be set.
        for name in brought:
            environment.pop(f"{name}_FILE", None)
        return environment

    def _programs(self, environment: dict[str, str]) -> list[Child]:
        commands = {
            "web": ("gunicorn", "-c", "gunicorn.conf.py", "wsgi:app"),
            "scheduler": ("scheduler",),
            "worker": ("worker",),
            "receiver": ("app.demo_receiver",),
        }
        return [
            Child(
                name,
                [sys.executable, "-m", *command],
                env=environment,
                log=self._folder.logs / f"{name}.log",
                undertaker=self._stores.undertaker,
                stop_seconds=self._settings.shutdown_grace_seconds + 5,
                cwd=ROOT,
            )
            for name, command in commands.items()
        ]

    def _wait_for_health(self, first_job: FirstJob) -> bool:
        """False when asked to stop meanwhile. Raises StartFailed when web does not become healthy."""
        deadline = time.monotonic() + HEALTHY_SECONDS
        web = next(child for child in self._restarts.children if child.name == "web")
        while not self._stop.asked.wait(0.05):
            if first_job.is_web_healthy():
                return True
            if not web.is_running or time.monotonic() > deadline:
                raise StartFailed(f"The web program does not start; the end of {web.log}:\n{web.log_end()}")
        return False

    def _introduce(self, first_job: FirstJob, credentials: Credentials) -> bool:
        """Submits the first job, and says how it went and where everything is. False when asked to stop meanwhile."""
        say(first_job.deliver(self._settings.receiver_port, self._wait))
        if self._stop.asked.is_set():
            return False
        say(f"  Dashboard      {base_url(self._settings)}/  (user {credentials.username})")
        say(f"  API            {base_url(self._settings)}/docs")
        say(f"  Demo receiver  http://127.0.0.1:{self._settings.receiver_port}/")
        say(f"  Password, key  {self._folder.path / 'credentials.json'}")
        say(f"  Logs           {self._folder.logs}")
        return True

    def _fill(self, settings: Settings) -> None:
        engine = make_engine(settings.require_stores()[0], 1)
        try:
            say(demo_data.fill(engine, settings.receiver_port))
        finally:
            engine.dispose()

    def _wait(self, seconds: float) -> bool:
        """Keeps watch meanwhile. True when asked to stop."""
        self._tick()
        return self._stop.asked.wait(seconds)

    def _tick(self) -> None:
        self._restarts.tick()
        now = time.monotonic()
        if now >= self._housekeeping_at:
            self._housekeeping_at = now + HOUSEKEEPING_SECONDS
            self._stores.keep_fresh()
            for log in self._folder.logs.glob("*.log"):
                shorten(log)

    def _stop_all(self) -> None:
        programs = [child for child in self._restarts.children if child not in self._stores.children]
        if programs:
            grace = self._settings.shutdown_grace_seconds
            say(f"Stopping: what is in flight may take up to {grace:g} s. Ctrl-C again stops at once.")
        for child in programs:
            child.ask_to_stop()
        deadline = time.monotonic() + self._settings.shutdown_grace_seconds + 5
        while any(child.is_running for child in programs):
            if time.monotonic() > deadline or self._stop.hurry.wait(0.05):
                break
        for child in programs:
            if child.is_running:
                say(f"{child.name} did not stop in time and was killed.")
            child.kill()
        self._stores.stop()
        if programs:
            say("Stopped.")


def require_free(name: str, host: str, port: int) -> None:
    """Raises StartFailed with a plain sentence when the port cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the programs do: connections of a past run that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError as error:
            raise StartFailed(
                f"Port {port} on {host} cannot be used ({error.strerror}): stop what listens there, or set {name} to another port."
            ) from error
