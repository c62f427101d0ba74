"""The local PostgreSQL and Redis: started anywhere, private, kept, stopped with their starter, found again after a crash."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from app import embedded_redis
from app.child import StartFailed
from app.config import child_environment
from app.data_folder import SOCKET_PATH_BYTES, DataFolder, socket_folder
from app.embedded import EmbeddedStores
from app.embedded_home import POINTER
from app.redis_client import make_redis
from tests.processes import ROOT, is_alive

STARTER = """
import sys, time
from pathlib import Path
from app.embedded import EmbeddedStores
stores = EmbeddedStores.in_folder(Path(sys.argv[1]))
stores.start()
print(*(child.pid for child in stores.children), stores.undertaker._process.pid, flush=True)
time.sleep(100)
"""


@pytest.fixture
def starter(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that started the stores in `data_dir`."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(data_dir)],
        cwd=ROOT,
        env=child_environment(PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def pids_of(starter: subprocess.Popen[str]) -> tuple[int, int, int]:
    """Redis, PostgreSQL, undertaker."""
    assert starter.stdout is not None
    first, second, third = map(int, starter.stdout.readline().split())
    return first, second, third


def write(stores: EmbeddedStores, value: str) -> None:
    assert stores.postgres is not None
    with stores.postgres.connect() as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS kept (value text)")
        conn.execute("INSERT INTO kept VALUES (%s)", [value])
    with make_redis(stores.redis_url, 5) as client:
        client.set("kept", value)


def read(stores: EmbeddedStores) -> tuple[str, str]:
    assert stores.postgres is not None
    with stores.postgres.connect() as conn:
        row = conn.execute("SELECT value FROM kept").fetchone()
    with make_redis(stores.redis_url, 5) as client:
        value = client.get("kept")
    assert row is not None and isinstance(value, bytes)
    return row[0], value.decode()


def test_the_servers_are_set_as_an_operator_must_set_them(stores: EmbeddedStores) -> None:
    assert stores.postgres is not None
    with stores.postgres.connect() as conn:
        settings: dict[str, str] = dict(conn.execute("SELECT name, setting FROM pg_settings").fetchall())
    with make_redis(stores.redis_url, 5) as client:
        found = client.config_get("*")
        version = client.info("server")["redis_version"]
    assert settings["synchronous_commit"] == "on"
    assert (settings["listen_addresses"], settings["server_encoding"], settings["TimeZone"]) == ("", "UTF8", "UTC")
    assert (found["port"], found["appendonly"], found["maxmemory-policy"]) == ("0", "yes", "noeviction")
    assert tuple(map(int, version.split(".")[:2])) >= embedded_redis.FLOOR


def test_nobody_else_can_get_at_the_sockets_or_the_data(stores: EmbeddedStores) -> None:
    assert stores.postgres is not None and stores.redis is not None
    for private in (stores.postgres.sockets, stores.postgres.home.data, stores.redis.sockets, stores.redis.data):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700, private


def test_data_is_kept_over_a_stop(data_dir: Path) -> None:
    with EmbeddedStores.in_folder(data_dir) as stores:
        write(stores, "one")
    with EmbeddedStores.in_folder(data_dir) as stores:
        assert read(stores) == ("one", "one")


@pytest.mark.parametrize("name", ["d" * 120 + "/" + "e" * 120, 'it\'s "odd", $HOME `x` \\ ünï', "-x"])
def test_any_folder_will_do(data_dir: Path, name: str) -> None:
    with EmbeddedStores.in_folder(data_dir / name) as stores:
        write(stores, "one")
        assert read(stores) == ("one", "one")
        used = [part.sockets for part in (stores.postgres, stores.redis) if part is not None]
    assert not any(folder.exists() for folder in used if folder.parent == Path("/tmp"))


def test_a_second_start_says_that_one_is_running(data_dir: Path) -> None:
    first = DataFolder(data_dir)
    with pytest.raises(StartFailed, match=rf"One is running on the data folder .*process {os.getpid()}"):
        EmbeddedStores.in_folder(data_dir)
    first.close()
    DataFolder(data_dir).close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartFailed, match="set DATA_DIR to one you can write"):
        DataFolder(tmp_path / "file" / "data")


def test_when_the_starter_is_killed_the_servers_stop_and_the_next_start_waits_for_that(
    data_dir: Path, starter: subprocess.Popen[str]
) -> None:
    pids = pids_of(starter)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    with EmbeddedStores.in_folder(data_dir) as stores:
        assert not any(is_alive(pid) for pid in pids[:2])
        write(stores, "one")


def test_servers_that_outlived_everybody_are_stopped_before_the_next_start(
    data_dir: Path, starter: subprocess.Popen[str]
) -> None:
    *servers, undertaker = pids_of(starter)
    os.kill(undertaker, signal.SIGKILL)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    assert all(is_alive(pid) for pid in servers)
    with EmbeddedStores.in_folder(data_dir) as stores:
        assert not any(is_alive(pid) for pid in servers)
        write(stores, "one")
        assert read(stores) == ("one", "one")


def test_an_undertaker_that_was_killed_is_replaced(data_dir: Path) -> None:
    with EmbeddedStores.in_folder(data_dir) as stores:
        os.kill(stores.undertaker._process.pid, signal.SIGKILL)
        stores.undertaker._process.wait()
        for child in stores.children:
            child.stop()
            child.start()
        assert stores.undertaker._process.poll() is None


def test_killed_servers_start_again_with_what_was_committed(data_dir: Path) -> None:
    with EmbeddedStores.in_folder(data_dir) as stores:
        write(stores, "one")
        # Redis writes its file once a second; a save of its own here stands for that second.
        with make_redis(stores.redis_url, 5) as client:
            client.config_set("appendfsync", "always")
            client.set("kept", "two")
        for child in stores.children:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
    with EmbeddedStores.in_folder(data_dir) as stores:
        assert read(stores) == ("one", "two")


def test_a_stale_pid_file_that_names_another_process_is_no_hindrance(data_dir: Path) -> None:
    with EmbeddedStores.in_folder(data_dir) as stores:
        assert stores.postgres is not None
        data = stores.postgres.home.data
    (data / "postmaster.pid").write_text(f"{os.getppid()}\n{data}\n")
    with EmbeddedStores.in_folder(data_dir) as stores:
        write(stores, "one")
    assert is_alive(os.getppid())


def test_a_cluster_that_was_never_finished_is_made_anew(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "postgres.new").mkdir()
    (data_dir / "postgres.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedStores.in_folder(data_dir, redis=False) as stores, psycopg.connect(stores.database_url) as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_data_of_another_major_version_is_left_alone(data_dir: Path) -> None:
    with EmbeddedStores.in_folder(data_dir, redis=False) as stores:
        assert stores.postgres is not None
        version = stores.postgres.home.data / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(StartFailed, match="written by PostgreSQL 17"), EmbeddedStores.in_folder(data_dir, redis=False):
        pass


def test_a_redis_file_that_cannot_be_read_is_put_aside(data_dir: Path) -> None:
    with EmbeddedStores.in_folder(data_dir, postgres=False) as stores:
        with make_redis(stores.redis_url, 5) as client:
            client.set("kept", "one")
        data = stores.redis.data if stores.redis else data_dir
    for file in (found for found in data.rglob("*") if found.is_file()):
        file.write_bytes(b"*3\r\n$nonsense" * 100)
    with EmbeddedStores.in_folder(data_dir, postgres=False) as stores, make_redis(stores.redis_url, 5) as client:
        assert client.get("kept") is None
    assert len(list(data_dir.glob("redis.unreadable-*"))) == 1


def test_throwaway_servers_leave_nothing() -> None:
    with EmbeddedStores.throwaway() as first, EmbeddedStores.throwaway() as second:
        folders = [first.folder.path, second.folder.path]
        write(first, "one")
        write(second, "two")
        assert (read(first), read(second)) == (("one", "one"), ("two", "two"))
    assert not any(folder.exists() for folder in folders)


def test_a_socket_folder_in_use_by_somebody_else_is_passed_by(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * SOCKET_PATH_BYTES)
    first = socket_folder(deep, "s")
    assert first.parent == Path("/tmp")
    assert socket_folder(deep, "s") == first
    first.chmod(0o755)
    second = socket_folder(deep, "s")
    assert second != first
    assert stat.S_IMODE(second.stat().st_mode) == 0o700
    for folder in (first, second):
        folder.rmdir()


def fake_server(folder: Path, name: str, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho 'Server v={version} sha=0'\n")
    program.chmod(0o755)
    return program


def test_an_old_redis_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_server(tmp_path, "redis-server", "6.0.16")
    valkey = fake_server(tmp_path, "valkey-server", "8.1.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert embedded_redis.find_server() == valkey


def test_without_a_redis_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_server(tmp_path, "redis-server", "6.0.16")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StartFailed, match=re.escape("is version 6.0")) as refused:
        embedded_redis.find_server()
    assert "apt-get install redis-server" in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another uid")
def test_as_root_the_data_goes_where_the_servers_uid_can_get(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    modes = {folder: folder.stat().st_mode for folder in (data_dir, *data_dir.parents)}
    with EmbeddedStores.in_folder(data_dir, redis=False) as stores:
        assert stores.postgres is not None
        home = stores.postgres.home
        assert home.uid != 0
        assert home.base.parent == Path("/var/lib/punctual")
        assert (data_dir / POINTER).read_text().strip() == str(home.data)
    with EmbeddedStores.in_folder(data_dir, redis=False) as stores:
        assert stores.postgres is not None and stores.postgres.home == home
    assert {folder: folder.stat().st_mode for folder in modes} == modes
    subprocess.run(["rm", "-r", str(home.base)], check=True)
    with pytest.raises(StartFailed, match="which is gone"), EmbeddedStores.in_folder(data_dir, redis=False):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become somebody else")
def test_another_user_gets_no_connection(stores: EmbeddedStores) -> None:
    assert stores.postgres is not None
    socket = stores.postgres.sockets / ".s.PGSQL.5432"
    tried = subprocess.run(
        ["/bin/sh", "-c", f"ls {socket}"], user=1, group=1, extra_groups=[], cwd="/", capture_output=True, check=False
    )
    assert tried.returncode != 0
    assert socket.exists()
