"""Writing a new file and waiting until it is on the device: write(2) and fdatasync(2), timed together."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from tare.worker.counters import device_write_bytes, increase
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import file_evidence as evidence
from tare.workloads import written_file
from tare.workloads.declaration import LOCATION, Factor, Metric, Workload
from tare.workloads.samples import sample
from tare.workloads.written_file import MIB

#: size in MiB → how many files are written, one after another: the same work in every runtime, about a second each
REPEATS = {1: 32, 100: 6, 512: 2, 1024: 2}
#: bytes of one write(2); the buffer is filled before the clock starts
WRITE_BYTES = MIB

WORKLOADS: Tuple[Workload, ...] = (
    Workload(
        name="io-write",
        title="write a file and sync it",
        stack="hpc",
        adapter=__name__,
        factors={
            "location": LOCATION,
            "size": Factor(100, tuple(REPEATS), "size of the file in MiB"),
        },
        metrics=(Metric("bytes_per_second", "steady", "B/s", False, "write and fdatasync"),),
        layer="files",
        expected_seconds=3.0,
    ),
)


class IoWrite(Task):
    """One run: several new files of one size."""

    epochs = 1
    timed = False

    def __init__(self, request: Request, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.size = int(request.factors["size"]) * MIB
        self.repeats = REPEATS[int(request.factors["size"])]
        self.folder, self.clock = request.files, clock
        written_file.require_disk(self.folder, self.size)
        # Random, not zeros as dd gives them: file systems and devices store zeros without storing them.
        self.buffer = memoryview(os.urandom(WRITE_BYTES))
        self.times_ns: List[int] = []
        self.reasons: List[str] = []
        self.device: Optional[int] = None

    def steps(self, epoch: int) -> Iterator[None]:
        """Write the files; a file is removed before the next is written."""
        os.sync()  # what others left to be written is not ours
        before = device_write_bytes()
        for number in range(self.repeats):
            path = os.path.join(self.folder, "write-%d.data" % number)
            self.times_ns.append(self._write(path))
            self.reasons += written_file.sparse_reasons(path, self.size)
            os.unlink(path)
        self.device = increase(before, device_write_bytes())
        yield

    def _write(self, path: str) -> int:
        """Return how long it took, in ns, to have a new file of ``size`` bytes on the device."""
        buffer, left = self.buffer, self.size
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            begun = self.clock()
            while left:
                left -= os.write(handle, buffer[:left] if left < WRITE_BYTES else buffer)
            os.fdatasync(handle)
            return self.clock() - begun
        finally:
            os.close(handle)

    def samples(self) -> List[Dict[str, Any]]:
        """Return the bandwidth of each file."""
        return [
            sample("bytes_per_second", "B/s", self.size / time_ns * 1e9, index)
            for index, time_ns in enumerate(self.times_ns)
            if time_ns > 0
        ]

    def check(self) -> Check:
        """Return whether all bytes went to a device, no faster than memory is."""
        memory = evidence.memory_bandwidth()
        shortest = min(self.times_ns)
        reasons = list(dict.fromkeys(self.reasons)) + evidence.zero_reasons(shortest)
        if shortest > 0:
            reasons += evidence.bandwidth_reasons(self.size / shortest * 1e9, memory)
        reasons += evidence.device_reasons("written", self.device, self.size * self.repeats)
        facts = {
            "work": {"file_bytes": self.size, "write_bytes": WRITE_BYTES, "files": self.repeats},
            "device_write_bytes": self.device,
            "memory_bytes_per_second": memory,
        }
        return Check(reasons, facts)


def set_up(request: Request) -> IoWrite:
    """Return the run that ``request`` names; raises ``WrittenFileError`` where nothing can be written."""
    return IoWrite(request)
