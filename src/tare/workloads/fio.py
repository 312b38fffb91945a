"""fio, wrapped: direct requests at a queue depth, on a file of random data written before."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from tare.worker import page_cache
from tare.worker.counters import device_read_bytes, device_write_bytes, increase
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import file_evidence as evidence
from tare.workloads import fio_output, tool, written_file
from tare.workloads.declaration import LOCATION, Factor, Metric, Workload
from tare.workloads.hpc_software import debian_packages

PACKAGES = ("fio", "libaio1")
FILE_BYTES = 256 << 20
#: psync has no queue, io_uring is forbidden by the seccomp profile of newer engines: the same
#: engine in every runtime, and no other when it fails
ENGINE = "libaio"
DEPTHS = (1, 8, 32)
NO_LATENCY = "fio wrote no percentiles of completion latency; use fio 3 (Debian 12 has 3.33)"


class Pattern(NamedTuple):
    """fio's name of a pattern, its direction in the output, and the request size in bytes."""

    rw: str
    direction: str
    request_bytes: int


PATTERNS = {
    "fio-randread": Pattern("randread", "read", 4096),
    "fio-seqread": Pattern("read", "read", 256 << 10),
    "fio-randwrite": Pattern("randwrite", "write", 4096),
}
_TITLES = {
    "fio-randread": "fio: random reads",
    "fio-seqread": "fio: sequential reads",
    "fio-randwrite": "fio: random writes",
}


def _metrics(pattern: Pattern) -> Tuple[Metric, ...]:
    """One of the two rates gets a verdict: of one request size they are the same number, and count once."""
    rates = {
        4096: Metric("requests_per_second", "steady", "request/s", False, "requests of 4 KiB"),
        256 << 10: Metric("bytes_per_second", "steady", "B/s", False, "bandwidth in 256 KiB"),
    }
    return (
        rates[pattern.request_bytes],
        Metric("completion_seconds_p50", "steady", "s", True, "completion, median"),
        Metric("completion_seconds_p99", "steady", "s", True, "completion, 99th percentile"),
        Metric("completion_seconds_p999", "steady", "s", True, "completion, 99.9th percentile"),
    )


WORKLOADS: Tuple[Workload, ...] = tuple(
    Workload(
        name=name,
        title=_TITLES[name],
        stack="hpc",
        adapter=__name__,
        factors={
            "location": LOCATION,
            "depth": Factor(8, DEPTHS, "requests in flight"),
            "seconds": Factor(2, (), "how long the requests are made, in seconds"),
        },
        metrics=_metrics(pattern),
        layer="files",
        expected_seconds=5.0,
    )
    for name, pattern in PATTERNS.items()
)


class Fio(Task):
    """One run of one job."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.pattern = PATTERNS[request.workload]
        self.depth, self.seconds = int(request.factors["depth"]), int(request.factors["seconds"])
        self.folder, self.seed = request.files, request.seed
        self.path = os.path.join(request.files, "fio.data")
        self.output = os.path.join(request.output, "fio.json")
        self.program = tool.find("fio", "fio")
        self.said: Optional[tool.Said] = None
        self.job: Optional[fio_output.Job] = None
        self.shares: Dict[str, float] = {}
        self.device: Optional[int] = None
        written_file.create(self.path, FILE_BYTES)

    def options(self) -> Dict[str, str]:
        """Return the options of the job that say what is done; all but the places of its files."""
        return {
            "name": "tare",
            "rw": self.pattern.rw,
            "bs": str(self.pattern.request_bytes),
            "size": str(FILE_BYTES),
            "ioengine": ENGINE,
            "iodepth": str(self.depth),
            "direct": "1",
            "time_based": "1",
            "runtime": "%ds" % self.seconds,
            "randseed": str(self.seed),
            "allow_file_create": "0",
            "overwrite": "1",
            "refill_buffers": "1",
            "thread": "1",
            "percentile_list": "50:99:99.9",
        }

    def command(self) -> List[str]:
        """Return the command line; the JSON goes to a file of its own, so that no word of fio's is mixed into it."""
        places = ["--filename=%s" % self.path, "--output=%s" % self.output, "--output-format=json"]
        return [self.program, *("--%s=%s" % option for option in self.options().items()), *places]

    def steps(self, epoch: int) -> Iterator[None]:
        """Put the file out of the page cache and run fio."""
        counter = device_read_bytes if self.pattern.direction == "read" else device_write_bytes
        self.shares["before"] = written_file.cache_out(self.path)
        before = counter()
        self.said = tool.run(self.command(), self.folder)
        self.device = increase(before, counter())
        self.shares["after"] = page_cache.resident_share(self.path)
        if self.said.status == 0:
            with open(self.output, encoding="utf-8") as file:
                self.job = fio_output.read_job(file.read(), self.pattern.direction)
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return fio's numbers in SI units."""
        return fio_output.samples(self.job) if self.job else []

    def check(self) -> Check:
        """Return whether fio did what it was told, on the device, no faster than memory."""
        assert self.said is not None
        memory = evidence.memory_bandwidth()
        reasons = tool.exit_reasons("fio", self.said)
        reasons += written_file.sparse_reasons(self.path, FILE_BYTES)
        reasons += evidence.evicted_reasons(self.shares["before"], "before the requests")
        reasons += evidence.evicted_reasons(self.shares["after"], "after requests that are said to be direct")
        if self.job is not None:
            reasons += self._job_reasons(self.job, memory)
        os.unlink(self.path)
        return Check(reasons, self._facts(memory))

    def _job_reasons(self, job: fio_output.Job, memory: float) -> List[str]:
        reasons = fio_output.reasons(job, ENGINE, self.depth)
        reasons += evidence.bandwidth_reasons(float(job.numbers["bw_bytes"]), memory)
        done = "read" if self.pattern.direction == "read" else "written"
        reasons += evidence.device_reasons(done, self.device, int(job.numbers["io_bytes"]))
        found = {sample["metric"] for sample in fio_output.samples(job)}
        return reasons if found >= set(fio_output.PERCENTILES.values()) else [*reasons, NO_LATENCY]

    def _facts(self, memory: float) -> Dict[str, Any]:
        engine = None if self.job is None else self.job.options.get("ioengine")
        return {
            "work": {"file_bytes": FILE_BYTES, "engine": engine, "options": self.options()},
            "depth_percent": None if self.job is None else dict(self.job.depths),
            "requests": None if self.job is None else self.job.numbers["total_ios"],
            "latency_ns": None
            if self.job is None
            else {name: self.job.numbers["clat_ns"].get(name) for name in ("min", "mean", "max", "stddev")},
            "device_bytes": self.device,
            "resident": self.shares,
            "memory_bytes_per_second": memory,
        }

    def software(self) -> Dict[str, Any]:
        """Return version, packages and options, without the paths of this run."""
        return {
            "fio": None if self.job is None else self.job.version,
            "packages": debian_packages(PACKAGES),
            "options": self.options(),
        }

    def libraries(self) -> List[str]:
        """Return what the loader maps for fio."""
        return tool.libraries(self.program)


def set_up(request: Request) -> Fio:
    """Return the run that ``request`` names, its test file written; raises ``WrittenFileError``, ``ToolError``."""
    return Fio(request)
