"""io-write: what is timed, how often, and what proves that it was written."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request
from tare.worker.request import Request
from tare.workloads import file_evidence, io_write, written_file
from tare.workloads.io_write import IoWrite
from tare.workloads.written_file import MIB, WrittenFileError

TOTAL = 32 * MIB


def request(folder: Path) -> Request:
    return adapter_request("io-write", folder, {"location": "bind", "size": 1})


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    values: list[int | None] = [100, 100 + TOTAL]
    monkeypatch.setattr(io_write, "device_write_bytes", lambda: values.pop(0))
    monkeypatch.setattr(written_file, "file_system_magic", lambda _: 0xEF53)
    monkeypatch.setattr(file_evidence, "memory_bandwidth", lambda: 30e9)
    return values


def ticking(step_ns: int) -> Callable[[], int]:
    def ticks() -> Iterator[int]:
        now = 0
        while True:
            yield now
            now += step_ns

    values = ticks()
    return lambda: next(values)


def ran(folder: Path, step_ns: int = 10**6) -> IoWrite:
    task = IoWrite(request(folder), ticking(step_ns))
    for _ in task.steps(0):
        pass
    return task


def test_every_file_is_a_sample(tmp_path: Path) -> None:
    task = ran(tmp_path)
    found = task.samples()
    assert len(found) == io_write.REPEATS[1] == 32
    assert {(s["metric"], s["unit"], s["value"]) for s in found} == {("bytes_per_second", "B/s", MIB * 1e3)}
    check = task.check()
    assert check.reasons == []
    assert check.facts["work"] == {"file_bytes": MIB, "write_bytes": MIB, "files": 32}
    assert check.facts["device_write_bytes"] == TOTAL
    assert list(tmp_path.iterdir()) == []


def test_the_clock_covers_the_write_and_the_sync_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: (order.append(name), real(*arguments, **options))[1]

    for name in ("open", "write", "fdatasync", "close"):
        monkeypatch.setattr(os, name, noting(name, getattr(os, name)))
    task = IoWrite(request(tmp_path), noting("clock", ticking(10**6)))
    task._write(str(tmp_path / "x"))
    assert order == ["open", "clock", "write", "fdatasync", "clock", "close"]


def test_what_is_written_is_random(tmp_path: Path) -> None:
    task = IoWrite(request(tmp_path))
    assert len(zlib.compress(bytes(task.buffer), 1)) > 0.99 * MIB
    task._write(str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == bytes(task.buffer)


def test_sizes_that_are_no_multiple_of_a_write_are_whole(tmp_path: Path) -> None:
    task = IoWrite(request(tmp_path))
    task.size = 2 * MIB + 5
    task._write(str(tmp_path / "x"))
    assert (tmp_path / "x").stat().st_size == 2 * MIB + 5


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0, 0], f"0 bytes were written on a device, {TOTAL} bytes by the test"),  # memory below
        ([None, None], "does not count the bytes written"),
    ],
)
def test_what_no_device_took_has_no_number(
    tmp_path: Path, counted: list[int | None], values: list[int | None], says: str
) -> None:
    counted[:] = values
    (reason,) = ran(tmp_path).check().reasons
    assert says in reason


def test_a_bandwidth_above_memory_has_no_number(tmp_path: Path) -> None:
    (reason,) = ran(tmp_path, step_ns=20_000).check().reasons  # 52 GB/s
    assert "above the memory's own bandwidth" in reason


def test_no_time_at_all_has_no_number(tmp_path: Path) -> None:
    task = ran(tmp_path, step_ns=0)
    assert task.samples() == []
    assert "took 0 ns" in task.check().reasons[0]


def test_sparse_files_are_one_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_file, "sparse_reasons", lambda *_: ["sparse"])
    assert ran(tmp_path).check().reasons == ["sparse"]


def test_free_space_is_looked_at_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: told)
    monkeypatch.setattr(io_write, "MIB", told.f_frsize * told.f_blocks)
    with pytest.raises(WrittenFileError, match="free some space or choose a smaller size"):
        IoWrite(request(tmp_path))


def test_every_size_has_its_number_of_files() -> None:
    assert io_write.WORKLOADS[0].factors["size"].allowed == tuple(io_write.REPEATS) == (1, 100, 512, 1024)
