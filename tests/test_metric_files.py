"""Folding the counters of ended processes into one file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.mmap_dict import MmapedDict

from app.metric_files import choose_directory, fold

KEY = '["jobs_submitted", "jobs_submitted_total", {}, "Jobs"]'


def write(path: Path, value: float) -> None:
    values: Any = MmapedDict(str(path))  # type: ignore[no-untyped-call]
    values.write_value(KEY, value, 0.0)
    values.close()


def read(path: Path) -> float:
    read_all: Any = MmapedDict.read_all_values_from_file
    return float({key: value for key, value, _, _ in read_all(str(path))}[KEY])


@pytest.fixture
def ended_pids() -> list[int]:
    processes = [subprocess.Popen([sys.executable, "-c", ""]) for _ in range(2)]
    for process in processes:
        process.wait()
    return [process.pid for process in processes]


def test_files_of_ended_processes_are_summed_and_removed(tmp_path: Path, ended_pids: list[int]) -> None:
    for _ in range(2):
        for pid in ended_pids:
            write(tmp_path / f"counter_{pid}.db", 5)
        assert fold(str(tmp_path)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["counter_past.db"]
    assert read(tmp_path / "counter_past.db") == 20


def test_a_living_process_keeps_its_file(tmp_path: Path) -> None:
    write(tmp_path / f"counter_{os.getppid()}.db", 5)
    assert fold(str(tmp_path)) == 0
    assert read(tmp_path / f"counter_{os.getppid()}.db") == 5


def test_a_broken_file_loses_its_own_counts_only(tmp_path: Path, ended_pids: list[int]) -> None:
    write(tmp_path / f"counter_{ended_pids[0]}.db", 5)
    (tmp_path / f"counter_{ended_pids[1]}.db").write_bytes(b"\xff\x00\x00\x00\x00\x00\x00\x00\xff")
    assert fold(str(tmp_path)) == 2
    assert read(tmp_path / "counter_past.db") == 5


def test_the_folder_is_in_the_data_folder_or_where_one_can_write(tmp_path: Path) -> None:
    assert choose_directory(tmp_path) == str(tmp_path / "metrics")
    (tmp_path / "file").touch()
    elsewhere = Path(choose_directory(tmp_path / "file"))
    assert elsewhere.is_dir()
    elsewhere.rmdir()
