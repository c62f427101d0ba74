"""Where the web processes of one host keep their counters, so that totals outlive every process. For gunicorn's parent.

Prometheus' library reads PROMETHEUS_MULTIPROC_DIR when it is first loaded: nothing here loads it before that is set.
"""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import structlog

logger = structlog.get_logger(__name__)

# What no process is called.
PAST = "past"


def choose_directory(data_dir: Path) -> str:
    """The value for PROMETHEUS_MULTIPROC_DIR: a folder in DATA_DIR, or, where that cannot be written, a fresh temporary one."""
    directory = data_dir / "metrics"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f".{os.getpid()}").touch()
        (directory / f".{os.getpid()}").unlink()
    except OSError:
        return tempfile.mkdtemp(prefix="punctual-metrics-")
    return str(directory)


def fold(directory: str) -> int:
    """Adds the files of processes that ended to one file for each kind of metric. Returns how many files that were.

    1. The sums go into a new file. A crash here: it is overwritten next time. 2. It takes the old sums' place. A crash here:
    those files are counted twice; totals may then be high, but never fall. 3. The files are removed.
    """
    folded = 0
    for kind in ("counter", "histogram", "summary"):
        ended = [path for path in Path(directory).glob(f"{kind}_*.db") if _has_ended(path)]
        if ended:
            past = Path(directory, f"{kind}_{PAST}.db")
            _sum_up([path for path in (past, *ended) if _is_readable(path)], past)
            for path in ended:
                path.unlink(missing_ok=True)
            folded += len(ended)
    return folded


def _has_ended(path: Path) -> bool:
    pid = path.stem.partition("_")[2]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return int(pid) == os.getpid()


def _is_readable(path: Path) -> bool:
    """False for a file that is empty or was cut off, by a power cut say: its counts are lost, the others are not."""
    try:
        _values(path)
    except FileNotFoundError:
        return False
    except (OSError, RuntimeError, ValueError, struct.error):
        logger.warning("metric_file_unreadable", file=path.name)
        return False
    return True


def _values(path: Path) -> list[tuple[str, float]]:
    from prometheus_client.mmap_dict import MmapedDict

    read: Any = MmapedDict.read_all_values_from_file
    return [(key, value) for key, value, _, _ in read(str(path))]


def _sum_up(paths: list[Path], target: Path) -> None:
    from prometheus_client.mmap_dict import MmapedDict

    sums: dict[str, float] = {}
    for path in paths:
        for key, value in _values(path):
            sums[key] = sums.get(key, 0.0) + value
    fresh = target.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    values: Any = MmapedDict(str(fresh))  # type: ignore[no-untyped-call]
    for key, value in sums.items():
        values.write_value(key, value, 0.0)
    values.close()
    fresh.replace(target)
