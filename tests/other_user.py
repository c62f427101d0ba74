"""A user without any right, and a Python with our packages that such a user can run, for tests of what containers do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

# Another user than ours where we may become one; else our own.
NOBODY = 65534 if os.geteuid() == 0 else None
AS_NOBODY: dict[str, Any] = {} if NOBODY is None else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
VERSION = f"import sys; sys.exit(sys.version_info[:3] != {sys.version_info[:3]})"


def make_programs(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Makes `python` and the console scripts `names` on this process's packages, as the image has them. Returns PATH and what else they need.

    When this process's Python lies in somebody's home, a copy is made.
    """
    python, environment = _reachable(folder / "python")
    venv = folder / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", str(venv)], check=True, env=environment)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    programs = venv / "bin"
    for name in names:
        (entry,) = entry_points(group="console_scripts", name=name)
        script = f"#!{programs}/python\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    if not _runs(str(programs / "python"), "import flask, gunicorn, psycopg, pycurl, redis", environment):
        pytest.skip("the packages lie in a folder that another user cannot get to")
    return {"PATH": f"{programs}:/usr/bin:/bin", **environment}


def _reachable(folder: Path) -> tuple[str, dict[str, str]]:
    """A Python of this version that nobody can run, and the environment it needs: ours, or a copy in `folder`."""
    python = Path(sys.executable).resolve()
    if _runs(str(python), VERSION, {}):
        return str(python), {}
    library = Path(sysconfig.get_path("stdlib"))
    without = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "config-*")
    shutil.copytree(library, folder / "lib" / library.name, ignore=without)
    for shared in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython*.so.*"):
        shutil.copy(shared, folder / "lib")
    (folder / "bin").mkdir()
    copy, environment = shutil.copy(python, folder / "bin"), {"LD_LIBRARY_PATH": str(folder / "lib")}
    if not _runs(str(copy), VERSION, environment):
        pytest.skip(f"neither {python} nor a copy of it can be run by another user")
    return str(copy), environment


def _runs(python: str, program: str, environment: dict[str, str]) -> bool:
    try:
        told = subprocess.run([python, "-c", program], cwd="/", env=environment, check=False, **AS_NOBODY)
    except OSError:
        return False
    return told.returncode == 0
