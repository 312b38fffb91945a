"""The first write to a file of the image, which an overlay copies whole before it, against the next ones.

Where nothing is layered (host, chroot, a read-only root) the same is done on a plain copy of the file.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from tare.worker import page_cache
from tare.worker.counters import device_write_bytes, increase
from tare.worker.mounts import mount_at
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import file_evidence as evidence
from tare.workloads import written_file
from tare.workloads.declaration import Factor, Metric, Workload
from tare.workloads.samples import sample

#: where an image has the file (containers/hpc), writable for every user; made by ``content``
IMAGE_FILE = "/usr/share/tare/copy-up.data"
FILE_BYTES = 64 << 20
SEED = 20
WRITE_BYTES = 4096
NEXT_WRITES = 20
#: the output folder where a root filesystem of the image is seen (PROTOCOL.md)
_INSIDE = "/tare"

WORKLOADS: Tuple[Workload, ...] = (
    Workload(
        name="copy-up",
        title="first write to a file of the image",
        stack="hpc",
        adapter=__name__,
        factors={
            "location": Factor(
                "layer",
                ("layer",),
                "where the file lies: in the image; elsewhere than in containers a plain copy",
            )
        },
        metrics=(
            Metric("first_write_seconds", "first", "s", True, "first write to a file of 64 MiB"),
            Metric("next_write_seconds", "steady", "s", True, "the writes after it"),
        ),
        layer="files",
        expected_seconds=2.0,
    ),
)


class CopyUpError(RuntimeError):
    """The image lacks the file that is to be written; the message names the fix."""


def content() -> bytes:
    """Return the bytes of the file: random, the same wherever they are made (Mersenne Twister, Python ≥ 3.9)."""
    return random.Random(SEED).randbytes(FILE_BYTES)


class CopyUp(Task):
    """One run: each of its samples is open, a write of 4 KiB, close."""

    epochs = 1
    timed = False

    def __init__(
        self, request: Request, image_file: str = IMAGE_FILE, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.clock = clock
        self.layered = os.access(image_file, os.W_OK)
        if self.layered:
            self.path = image_file
        elif request.output == _INSIDE and not os.path.exists(image_file):
            raise CopyUpError(
                "the image has no %s; build the image from containers/hpc of this Tare" % image_file
            )
        else:
            self.path = self._plain_copy(request, image_file)
        with open(self.path, "rb") as file:
            self.sha256 = hashlib.sha256(file.read()).hexdigest()
        self.buffer = os.urandom(WRITE_BYTES)
        self.times_ns: List[int] = []
        self.resident: Optional[float] = None
        self.copied: Optional[int] = None

    @staticmethod
    def _plain_copy(request: Request, image_file: str) -> str:
        folder = request.files if os.access(request.files, os.W_OK) else request.output
        written_file.require_disk(folder, FILE_BYTES)
        path = os.path.join(folder, "copy-up.data")
        with open(path, "wb") as file:
            if os.path.exists(image_file):
                with open(image_file, "rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
            else:
                file.write(content())
            file.flush()
            os.fsync(file.fileno())
        return path

    def steps(self, epoch: int) -> Iterator[None]:
        """Read the file, so that the device is no part of it, then write to it."""
        page_cache.read_in(self.path)
        if page_cache.mincore_tells(self.path):
            self.resident = page_cache.resident_share(self.path)
        before = device_write_bytes()
        self.times_ns.append(self._write())
        self.copied = increase(before, device_write_bytes())
        for _ in range(NEXT_WRITES):
            self.times_ns.append(self._write())
        yield

    def _write(self) -> int:
        begun = self.clock()
        handle = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(handle, self.buffer, 0)
        finally:
            os.close(handle)
        return self.clock() - begun

    def samples(self) -> List[Dict[str, Any]]:
        """Return the time of the first write, and of each of the next ones."""
        named = [("first_write_seconds", "first", 0, self.times_ns[0])] if self.times_ns else []
        named += [
            ("next_write_seconds", "steady", index, time_ns)
            for index, time_ns in enumerate(self.times_ns[1:])
        ]
        return [
            sample(metric, "s", time_ns * 1e-9, index, phase)
            for metric, phase, index, time_ns in named
            if time_ns > 0
        ]

    def check(self) -> Check:
        """Return whether the file was read before, whole and written; what was copied is a fact, no fault."""
        reasons = evidence.zero_reasons(min(self.times_ns))
        if self.resident is not None:
            reasons += evidence.cached_reasons(self.resident, 1.0, None, FILE_BYTES)
        reasons += written_file.sparse_reasons(self.path, FILE_BYTES)
        mount = mount_at(self.path)
        facts = {
            "work": {"file_bytes": FILE_BYTES, "write_bytes": WRITE_BYTES, "file_sha256": self.sha256},
            "place": "file of the image" if self.layered else "plain copy",
            "file_system": mount.type if mount else None,
            "cached": "unverified" if self.resident is None else self.resident,
            "first_write_device_bytes": self.copied,
        }
        if not self.layered:
            os.unlink(self.path)
        return Check(reasons, facts)


def set_up(request: Request) -> CopyUp:
    """Return the run that ``request`` names; raises ``CopyUpError``, ``WrittenFileError``."""
    return CopyUp(request)
