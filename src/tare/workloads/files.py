"""Many small files, cached: what a folder of images asks of a file system's names and inodes, not of its device."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional

from tare.worker.mounts import mount_at
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import native
from tare.workloads.declaration import LOCATION, Factor, Metric, Workload
from tare.workloads.samples import steady, time_reasons

PROGRAM = "small_files"  # not "files": that is the folder of test files beside it
#: folder of the test files below the one the run was given
FOLDER = "files-small"
PER_FOLDER = 250
ROUNDS = 3
#: share of the bytes read that may come from a device although all were just written
DEVICE_SHARE = 0.01

OPERATIONS = ("create", "stat", "read", "unlink")

WORKLOADS = (
    Workload(
        name="files-small",
        title="many small files",
        stack="hpc",
        adapter=__name__,
        factors={
            "files": Factor(2000, (), "number of files, in folders of %d" % PER_FOLDER),
            "bytes": Factor(4096, (), "size of each file"),
            "location": LOCATION,
        },
        metrics=(
            Metric("create_seconds", "steady", "s", True, "create, write, close"),
            Metric("stat_seconds", "steady", "s", True, "stat"),
            Metric("read_seconds", "steady", "s", True, "open, read, close"),
            Metric("unlink_seconds", "steady", "s", True, "unlink"),
        ),
        layer="files",
        expected_seconds=2.5,
        native=PROGRAM,
    ),
)


class FilesError(RuntimeError):
    """The files asked for cannot be measured here; the message names the factor, what is allowed and the fix."""


class Files(Task):
    """One run of the program, which times itself."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.request = request
        self.files, self.bytes = int(request.factors["files"]), int(request.factors["bytes"])
        self.folder = os.path.join(request.files, FOLDER)
        check_room(self.files, self.bytes, request.files)
        self.program = native.software(PROGRAM, request)
        self.result: Dict[str, Any] = {}

    def steps(self, epoch: int) -> Iterator[None]:
        """Run the program once, in a folder of its own."""
        os.mkdir(self.folder)
        self.result = native.run(
            self.request,
            PROGRAM,
            {
                "folder": self.folder,
                "files": self.files,
                "per-folder": PER_FOLDER,
                "bytes": self.bytes,
                "rounds": ROUNDS,
                "seed": self.request.seed,
            },
        )
        os.rmdir(self.folder)  # fails when the program left something
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return seconds a file, a sample for each folderful in each round."""
        return [
            sample
            for name in OPERATIONS
            for sample in steady(name + "_seconds", "s", self.result["operations"][name])
        ]

    def check(self) -> Check:
        """Return whether every file was handled and read from the page cache, and where the files lay."""
        tick = self.result["tick_ns"] * 1e-9
        expected = -(-self.files // PER_FOLDER) * ROUNDS
        read = self.files * self.bytes * ROUNDS
        reasons = device_reasons(self.result["device_read_bytes"], read)
        for name in OPERATIONS:
            times = self.result["operations"][name]
            reasons += time_reasons(name, times, expected, min(self.files, PER_FOLDER), tick)
        facts = {
            "cpu": self.result["cpu"],
            "tick_seconds": tick,
            "clock_seconds": self.result["clock_seconds"],
            "folders_spread": self.result["folders_spread"],
            "bytes_read": read,
            "device_read_bytes": self.result["device_read_bytes"],
            "file_system": file_system(self.request.files),
            "work": {
                "files": self.files,
                "bytes": self.bytes,
                "per_folder": PER_FOLDER,
                "rounds": ROUNDS,
                "seed": self.request.seed,
            },
        }
        return Check(reasons, facts)

    def software(self) -> Dict[str, Any]:
        """Return the program's identity."""
        return self.program


def check_room(files: int, size: int, folder: str) -> None:
    """Raise ``FilesError`` when the file system of ``folder`` has not the free bytes or inodes for all files."""
    found = os.statvfs(folder)
    block = found.f_frsize
    needed, free = files * -(-size // block) * block, found.f_bavail * block
    if needed > free:
        raise FilesError(
            "files × bytes: %d bytes are needed, %d are free; choose fewer or smaller" % (needed, free)
        )
    if found.f_files > 0 and files > found.f_favail:  # 0: a file system without a table of inodes
        raise FilesError(
            "files: %d are asked for, %d inodes are free; choose fewer" % (files, found.f_favail)
        )


def device_reasons(device: Optional[float], read: int) -> List[str]:
    """Return why the reads were not from the page cache: bytes a device delivered, of ``read`` bytes in all.

    A kernel that does not count (None) refuses nothing: the files had just been written.
    """
    if device is None or device <= DEVICE_SHARE * read:
        return []
    return [
        "%d bytes came from a device while %d bytes of new files were read (limit %g %%): they were not cached; "
        "free some memory, or choose fewer files" % (device, read, DEVICE_SHARE * 100)
    ]


def file_system(folder: str) -> Optional[str]:
    """Return the type of file system that ``folder`` lies on as this process sees it: ext4, overlay, tmpfs, …"""
    mount = mount_at(folder)
    return mount.type if mount else None


def set_up(request: Request) -> Files:
    """Return the run that ``request`` names."""
    return Files(request)
