"""files-small: the program, what it leaves, and what makes its numbers none."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import native_runs
import pytest

from tare.workloads import files
from tare.workloads.declaration import LOCATION
from tare.workloads.registry import WORKLOADS

FACTORS = {"files": 600, "bytes": 100, "location": "bind"}
TIMES = 3 * files.ROUNDS  # 600 files are three folders


def result(device: float | None = 0.0, **changed: list[float]) -> dict[str, Any]:
    """A result of 600 files, 10 µs each; ``changed``: the times of an operation."""
    operations = {name: [1e-5] * TIMES for name in files.OPERATIONS}
    return {
        "tick_ns": 20,
        "clock_seconds": 2e-8,
        "cpu": 1,
        "folders_spread": True,
        "device_read_bytes": device,
        "operations": operations | changed,
    }


def finished(folder: Path, found: dict[str, Any]) -> files.Files:
    """A finished run of the adapter."""
    native_runs.put_result(folder, "small_files", found)
    made = files.set_up(native_runs.request(folder, "files-small", FACTORS))
    assert (made.epochs, made.timed, list(made.steps(0))) == (1, False, [None])
    return made


def test_metrics_are_seconds_a_file() -> None:
    workload = WORKLOADS["files-small"]
    assert [(m.name, m.unit, m.cost, m.optional) for m in workload.metrics] == [
        (f"{name}_seconds", "s", True, False) for name in ("create", "stat", "read", "unlink")
    ]
    assert workload.factors["location"] == LOCATION
    assert workload.native == files.PROGRAM != "files"  # the folder of test files has that name


def test_samples_and_facts(tmp_path: Path) -> None:
    made = finished(tmp_path, result(stat=[float(n) for n in range(1, TIMES + 1)]))
    assert (tmp_path / "arguments").read_text() == (
        f"--folder {tmp_path}/files/files-small --files 600 --per-folder 250 --bytes 100 --rounds 3 --seed 7\n"
    )
    found = made.samples()
    assert len(found) == 4 * TIMES
    assert [s["value"] for s in found if s["metric"] == "stat_seconds"] == list(range(1, TIMES + 1))
    reasons, facts = made.check()
    assert reasons == []
    assert facts["work"] == {"files": 600, "bytes": 100, "per_folder": 250, "rounds": 3, "seed": 7}
    assert (facts["bytes_read"], facts["device_read_bytes"]) == (600 * 100 * 3, 0.0)
    assert facts["file_system"] == files.file_system(str(tmp_path))
    assert set(made.software()) == {"program", "sha256"}
    assert not (tmp_path / "files/files-small").exists()


@pytest.mark.parametrize("name", files.OPERATIONS)
def test_every_operation_must_be_valid(tmp_path: Path, name: str) -> None:
    made = finished(tmp_path, result(**{name: [0.0] * TIMES}))
    assert made.check().reasons == [f"{name}: a time of 0 s is none: the clock saw nothing"]


def test_times_of_some_folders_are_not_enough(tmp_path: Path) -> None:
    made = finished(tmp_path, result(read=[1e-5] * (TIMES - 1)))
    assert made.check().reasons == ["read: 8 times instead of 9; look at the program's output"]


def test_reads_from_a_device_are_not_cached(tmp_path: Path) -> None:
    made = finished(tmp_path, result(device=1801))
    assert made.check().reasons == [
        "1801 bytes came from a device while 180000 bytes of new files were read (limit 1 %): they were not "
        "cached; free some memory, or choose fewer files"
    ]
    assert files.device_reasons(3000, 300000) == []
    assert files.device_reasons(None, 300000) == []


def test_files_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    space = SimpleNamespace(f_frsize=4096, f_bavail=20, f_files=100, f_favail=10)
    monkeypatch.setattr(os, "statvfs", lambda _: space)
    files.check_room(10, 8192, "/")
    with pytest.raises(
        files.FilesError, match="86016 bytes are needed, 81920 are free; choose fewer or smaller"
    ):
        files.check_room(7, 8193, "/")
    with pytest.raises(files.FilesError, match="files: 11 are asked for, 10 inodes are free; choose fewer"):
        files.check_room(11, 1, "/")
    space.f_files = space.f_favail = 0  # btrfs makes inodes as it needs them
    files.check_room(11, 1, "/")


def test_file_system_of_a_folder() -> None:
    assert files.file_system("/proc/self") == "proc"


Make = Callable[[str], Path]


@pytest.fixture
def program(native_program: Make) -> Path:
    return native_program("small_files")


def test_program_handles_every_file_and_leaves_none(program: Path, tmp_path: Path) -> None:
    status, out, err = native_runs.said(
        program,
        *(
            "--folder",
            str(tmp_path),
            "--files",
            "23",
            "--per-folder",
            "10",
            "--bytes",
            "4097",
            "--rounds",
            "2",
        ),
    )
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert {name: len(times) for name, times in found["operations"].items()} == dict.fromkeys(
        files.OPERATIONS, 6
    )
    assert all(value > 0 for times in found["operations"].values() for value in times)
    assert found["device_read_bytes"] in (0, None)
    assert list(tmp_path.iterdir()) == []


def test_adapter_with_the_real_program(program: Path, tmp_path: Path) -> None:
    native_runs.put_program(tmp_path, program)
    made = files.set_up(native_runs.request(tmp_path, "files-small", FACTORS))
    assert list(made.steps(0)) == [None]
    assert made.check().reasons == []
    assert len(made.samples()) == 4 * TIMES
    assert list((tmp_path / "files").iterdir()) == []


def test_another_content_ends_the_program(program: Path, tmp_path: Path) -> None:
    """A byte of one file is overwritten again and again; some time that is between its writing and its reading."""
    process = subprocess.Popen(
        [program, *("--folder", str(tmp_path), "--files", "500", "--rounds", "100")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        while process.poll() is None:
            found = next(tmp_path.glob("*-00000000/00000003.bin"), Path("/nowhere/at/all"))
            with contextlib.suppress(FileNotFoundError), found.open("r+b") as file:
                file.seek(4095)
                file.write(b"!")
        out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert "-00000000/00000003.bin does not hold the 4096 bytes" in err
    assert "that were written (4096 were read)" in err


def test_a_file_that_cannot_be_written_whole_ends_the_program(program: Path, tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    status, out, err = native_runs.said(program, "--folder", str(tmp_path), "--files", "3", preexec_fn=limit)
    assert (status, out) == (1, "")
    assert err.endswith("/00000000.bin: 1000 of 4096 bytes were written; is the file system full?\n")


def test_folders_are_spread_where_the_file_system_can(program: Path, tmp_path: Path) -> None:
    """What a journal-less ext4 remembers of deleted files must not grow into the time of creating others."""
    status, out, err = native_runs.said(program, "--folder", str(tmp_path), "--files", "3", "--rounds", "1")
    assert (status, err) == (0, "")
    spread = json.loads(out)["folders_spread"]
    assert spread is True or files.file_system(str(tmp_path)) != "ext4"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ([], 2, "--folder is missing: an empty folder for the files"),
        (["--folder", "/proc"], 1, " cannot be made: "),
        (["--folder", "/nowhere"], 1, "--folder: /nowhere cannot be entered: "),
        (["--folder", "/", "--files", "0"], 2, "--files: 0 is out of range"),
    ],
)
def test_wrong_arguments_are_refused(program: Path, arguments: list[str], status: int, says: str) -> None:
    found, out, err = native_runs.said(program, *arguments)
    assert (found, out) == (status, "")
    assert says in err
