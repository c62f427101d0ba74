"""DATA_DIR: its lock, its private files, and where its Unix sockets lie."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import socket
import tempfile
import time
from pathlib import Path

from app.child import StartFailed

# sun_path has 108 bytes with its closing zero on Linux and 104 on macOS; the shorter one holds everywhere.
SOCKET_PATH_BYTES = 103
# PostgreSQL takes a list in its socket folder setting, and libpq one in `host`: a comma, a quote or a space would split it.
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+-]+")
LEAVING_SECONDS = 40.0


class DataFolder:
    """A data folder that is locked for this process and its undertaker until `close`."""

    def __init__(self, path: Path) -> None:
        """Makes the folder when there is none. Raises StartFailed when it cannot be used, or when another start uses it."""
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            self.lock_fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartFailed(
                f"The data folder {self.path} cannot be used ({error.strerror}): set DATA_DIR to one you can write."
            ) from error
        try:
            self._lock()
        except BaseException:
            self.close()
            raise

    @property
    def logs(self) -> Path:
        return self.path / "log"

    def close(self) -> None:
        """Gives the lock up; calling it again does nothing."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
        self.lock_fd = -1

    def write_private(self, name: str, text: str) -> None:
        """Puts a file that only its owner can read in place of the old one, in one step."""
        fd, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self.path)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path / name)

    def read_private(self, name: str) -> str | None:
        """None when there is no such file. Raises StartFailed when it cannot be read."""
        path = self.path / name
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StartFailed(f"{path} cannot be read ({error}): set DATA_DIR to a folder of your own.") from error

    def _lock(self) -> None:
        """The lock outlives a starter that was killed, held by its undertaker: such a one is waited for."""
        deadline = time.monotonic() + LEAVING_SECONDS
        while True:
            try:
                fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                holder = os.pread(self.lock_fd, 32, 0).decode("ascii", "replace").strip()
            if is_alive(holder) or time.monotonic() > deadline:
                raise StartFailed(
                    f"One is running on the data folder {self.path} already (process {holder or 'unknown'}): "
                    "stop that one, or set DATA_DIR, PORT and RECEIVER_PORT to run another."
                )
            time.sleep(0.1)
        os.ftruncate(self.lock_fd, 0)
        os.pwrite(self.lock_fd, f"{os.getpid()}\n".encode(), 0)


def is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def socket_folder(preferred: Path, longest_name: str, owner: int | None = None) -> Path:
    """A 0700 folder for Unix sockets: `preferred`, or a short one in /tmp when its path is too long or no plain one, or
    its file system takes no sockets. The short one has the same name at each start while nobody else sits on it.
    """
    uid = os.geteuid() if owner is None else owner
    if fits(preferred, longest_name):
        preferred.mkdir(parents=True, exist_ok=True)
        if takes_sockets(preferred):
            return own(preferred, uid)
    return short_folder(preferred, uid)


def short_folder(instead_of: Path, uid: int) -> Path:
    """A 0700 folder of `uid` in /tmp, for what cannot lie in the place it should."""
    name = hashlib.sha256(os.fsencode(instead_of)).hexdigest()[:12]
    short = Path("/tmp") / f"punctual-{uid}-{name}"
    try:
        short.mkdir(mode=0o700)
        return own(short, uid)
    except FileExistsError:
        found = short.lstat()
    is_ours = found.st_uid == uid and found.st_mode & 0o177777 == 0o040700
    return short if is_ours else own(Path(tempfile.mkdtemp(prefix=f"{short.name}-", dir="/tmp")), uid)


def fits(folder: Path, name: str) -> bool:
    path = str(folder / name)
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES and PLAIN_PATH.fullmatch(path) is not None


def takes_sockets(folder: Path) -> bool:
    """False on file systems that take none (some shared folders of virtual machines)."""
    probe = folder / ".probe"
    probe.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(probe))
        except OSError:
            return False
    probe.unlink(missing_ok=True)
    return True


def own(folder: Path, uid: int) -> Path:
    """Makes a folder of ours private to `uid`."""
    folder.chmod(0o700)
    if folder.stat().st_uid != uid:
        os.chown(folder, uid, uid, follow_symlinks=False)
    return folder
