"""What lies under the test files: seen by the worker, or behind a container's layer by its upper folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tare import backing
from tare.parity import compare
from tare.worker.mounts import parse_mountinfo
from tare.worker.process_facts import upper_folder
from tare.workloads import fio, startup

TABLE = parse_mountinfo(
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,errors=remount-ro\n"
    "40 27 0:40 / /ram rw,nosuid - tmpfs tmpfs rw,size=1g\n"
    "41 27 8:17 / /var/lib/docker rw,noatime - xfs /dev/sdb1 rw,attr2\n"
)
WORKLOAD = fio.WORKLOADS[0]


def process(kind: str, upper: str | None = None) -> dict[str, Any]:
    mount = {"type": kind, "source": "/dev/root", "device": "254:0", "options": "rw", "super_options": "rw,x"}
    return {"mounts": {"files": mount}, "files_upper": upper}


def test_a_mount_that_the_worker_sees_is_what_lies_under() -> None:
    expected = {"device": "254:0", "type": "ext4", "options": "rw", "super_options": "rw,x"}
    assert backing.backing(process("ext4"), TABLE) == expected


@pytest.mark.parametrize(
    ("upper", "device", "kind", "options"),
    [
        ("/var/lib/docker/overlay2/ab/diff", "8:17", "xfs", "rw,noatime"),
        ("/srv/docker/overlay2/ab/diff", "254:0", "ext4", "rw,relatime"),
        ("/ram/docker/overlay2/ab/diff", "0:40", "tmpfs", "rw,nosuid"),
    ],
)
def test_a_layer_lies_where_its_upper_folder_does(upper: str, device: str, kind: str, options: str) -> None:
    found = backing.backing(process("overlay", upper), TABLE)
    assert found is not None
    assert (found["device"], found["type"], found["options"]) == (device, kind, options)


@pytest.mark.parametrize("upper", [None, "", "ab/diff"])
def test_an_upper_folder_without_a_whole_path_is_not_known(upper: str | None) -> None:
    assert backing.backing(process("overlay", upper), TABLE) is None


@pytest.mark.parametrize("told", [{}, {"mounts": None}, {"mounts": {"files": None}}])
def test_a_worker_that_tells_no_mount(told: dict[str, Any]) -> None:
    assert backing.backing(told, TABLE) is None


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"])
def test_memory_under_a_layer_refuses_the_number(kind: str) -> None:
    (reason,) = backing.reasons(WORKLOAD, {"type": kind})
    assert reason.startswith(f"the test files lie on {kind}, which is memory, no disk; allowed:")


def test_a_disk_is_no_reason_and_the_unknown_is_one() -> None:
    assert backing.reasons(WORKLOAD, {"type": "ext4"}) == []
    assert "device under the test files is not known" in backing.reasons(WORKLOAD, None)[0]


def test_a_workload_without_files_asks_nothing() -> None:
    assert backing.reasons(startup.WORKLOADS[0], None) == []
    assert backing.reasons(startup.WORKLOADS[0], {"type": "tmpfs"}) == []


@pytest.mark.parametrize("field", ["device", "type", "options", "super_options"])
def test_another_device_or_mount_is_not_comparable(field: str) -> None:
    under = {"device": "8:1", "type": "ext4", "options": "rw", "super_options": "rw"}
    whole = {"node": {"a": 1}, "launch": {"backing": under}, "process": {"k": 1}, "software": {"s": 1}}
    left: dict[str, Any] = {**whole, "libraries": {}}
    right = {**left, "launch": {"backing": {**under, field: "other"}}}
    assert compare(left, left, "chroot", "docker").status == "same"
    for pair in (("chroot", "docker"), ("host", "docker")):
        found = compare(left, right, *pair)
        assert (found.status, found.fields) == ("different", (f"launch.backing.{field}",))


def test_other_work_is_not_comparable() -> None:
    whole = {"node": {"a": 1}, "launch": {"x": 1}, "process": {"k": 1}, "software": {"s": 1}, "libraries": {}}
    left = {**whole, "check": {"work": {"file_bytes": 1, "options": {"iodepth": "8"}}}}
    right = {**whole, "check": {"work": {"file_bytes": 1, "options": {"iodepth": "1"}}}}
    found = compare(left, right, "host", "docker")
    assert (found.status, found.fields) == ("different", ("check.work.options.iodepth",))


def test_the_worker_names_the_upper_folder_of_an_overlay_only(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(
        "50 1 0:60 / / rw - overlay overlay rw,lowerdir=/d/l/A:/d/l/B,upperdir=/d/ab/diff,workdir=/d/ab/work\n"
        "51 50 254:0 /x /tare rw - ext4 /dev/root rw\n"
    )
    assert upper_folder("/var/tmp", str(tmp_path)) == "/d/ab/diff"
    assert upper_folder("/tare/files", str(tmp_path)) is None
    assert upper_folder(None, str(tmp_path)) is None
