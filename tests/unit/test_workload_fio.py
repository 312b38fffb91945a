"""The fio adapter: one job told exactly, and each way in which its numbers are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapter_requests import adapter_request
from tare.worker import page_cache
from tare.workloads import file_evidence, fio, tool, written_file
from tare.workloads.fio import Fio

RECORDED = json.loads((Path(__file__).resolve().parents[1] / "data/fio/randread.json").read_text())
IO_BYTES = RECORDED["jobs"][0]["read"]["io_bytes"]


class World:
    """What surrounds the adapter: residency, what the device counts, what fio writes and says."""

    def __init__(self) -> None:
        self.before, self.after = 0.0, 0.0
        self.device: list[int | None] = [7, 7 + IO_BYTES]
        self.written: list[int | None] = [7, 7 + IO_BYTES]
        self.said = tool.Said(0, "", "")
        self.json: dict[str, Any] = json.loads(json.dumps(RECORDED))
        self.called: list[str] = []

    def run(self, command: list[str], folder: str) -> tool.Said:
        self.called = command
        (Path(folder).parent / "fio.json").write_text(json.dumps(self.json))
        return self.said


Make = Callable[..., Fio]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(fio, "FILE_BYTES", 8192)
    monkeypatch.setattr(written_file, "require_disk", lambda *_: None)
    monkeypatch.setattr(written_file, "cache_out", lambda _: made.before)
    monkeypatch.setattr(page_cache, "resident_share", lambda _: made.after)
    monkeypatch.setattr(fio, "device_read_bytes", lambda: made.device.pop(0))
    monkeypatch.setattr(fio, "device_write_bytes", lambda: made.written.pop(0))
    monkeypatch.setattr(tool, "find", lambda name, _: f"/usr/bin/{name}")
    monkeypatch.setattr(tool, "run", made.run)
    monkeypatch.setattr(file_evidence, "memory_bandwidth", lambda: 30e9)
    return made


@pytest.fixture
def ran(world: World, tmp_path: Path) -> Make:  # noqa: ARG001 - what it runs in
    def make(name: str = "fio-randread", **factors: Any) -> Fio:
        files = tmp_path / "files"
        files.mkdir()
        levels = {"location": "bind", "depth": 8, "seconds": 2} | factors
        task = fio.set_up(adapter_request(name, tmp_path, levels, files=str(files)))
        for _ in task.steps(0):
            pass
        return task

    return make


@pytest.mark.parametrize(
    ("name", "rw", "size"),
    [
        ("fio-randread", "randread", "4096"),
        ("fio-seqread", "read", "262144"),
        ("fio-randwrite", "randwrite", "4096"),
    ],
)
def test_the_job_is_told_everything(
    world: World, ran: Make, tmp_path: Path, name: str, rw: str, size: str
) -> None:
    world.json["jobs"][0]["write"] = world.json["jobs"][0]["read"]
    ran(name, depth=32, seconds=3)
    assert world.called == [
        "/usr/bin/fio",
        "--name=tare",
        f"--rw={rw}",
        f"--bs={size}",
        "--size=8192",
        "--ioengine=libaio",
        "--iodepth=32",
        "--direct=1",
        "--time_based=1",
        "--runtime=3s",
        "--randseed=5",
        "--allow_file_create=0",
        "--overwrite=1",
        "--refill_buffers=1",
        "--thread=1",
        "--percentile_list=50:99:99.9",
        f"--filename={tmp_path}/files/fio.data",
        f"--output={tmp_path}/fio.json",
        "--output-format=json",
    ]


def test_a_good_run_is_valid_and_says_what_ran(ran: Make, tmp_path: Path) -> None:
    task = ran()
    check = task.check()
    assert check.reasons == []
    assert check.facts["work"]["engine"] == "libaio"
    assert check.facts["work"]["file_bytes"] == 8192
    assert check.facts["work"]["options"]["iodepth"] == "8"
    assert check.facts["device_bytes"] == IO_BYTES
    assert len(task.samples()) == 5
    assert list((tmp_path / "files").iterdir()) == []
    assert str(tmp_path) not in json.dumps(task.software())
    assert task.software()["fio"] == "fio-3.33"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (0.2, 0.0, "page cache before the requests"),
        (0.0, 0.2, "page cache after requests that are said to be direct"),
    ],
)
def test_direct_leaves_nothing_in_the_page_cache(
    world: World, ran: Make, before: float, after: float, says: str
) -> None:
    world.before, world.after = before, after
    (reason,) = ran().check().reasons
    assert says in reason


@pytest.mark.parametrize(
    ("device", "says"),
    [([0, IO_BYTES // 2], "bytes were read on a device"), ([None, None], "does not count the bytes read")],
)
def test_reads_are_proved_by_the_device(world: World, ran: Make, device: list[int | None], says: str) -> None:
    world.device = device
    (reason,) = ran().check().reasons
    assert says in reason


def test_writes_are_proved_by_the_device(world: World, ran: Make) -> None:
    world.json["jobs"][0]["write"] = world.json["jobs"][0]["read"]
    world.written = [0, 0]
    (reason,) = ran("fio-randwrite").check().reasons
    assert f"0 bytes were written on a device, {IO_BYTES} bytes by the test" in reason


def test_a_bandwidth_above_memory_has_no_number(world: World, ran: Make) -> None:
    world.json["jobs"][0]["read"]["bw_bytes"] = 85 * 10**9  # case 28
    (reason,) = ran().check().reasons
    assert "above the memory's own bandwidth" in reason


def test_a_failed_fio_has_no_number(world: World, ran: Make) -> None:
    world.said = tool.Said(1, "", "fio: engine libaio not loadable\n")
    task = ran()
    assert task.samples() == []
    assert task.check().reasons == ["fio ended with status 1: fio: engine libaio not loadable"]


def test_a_version_without_percentiles_is_refused(world: World, ran: Make) -> None:
    del world.json["jobs"][0]["read"]["clat_ns"]["percentile"]
    assert ran().check().reasons == [fio.NO_LATENCY]


def test_a_sparse_test_file_is_refused(ran: Make, tmp_path: Path) -> None:
    task = ran()
    path = tmp_path / "files/fio.data"
    path.unlink()
    with path.open("wb") as file:
        file.truncate(8192)
    (reason,) = task.check().reasons
    assert "sparse or compressed" in reason
