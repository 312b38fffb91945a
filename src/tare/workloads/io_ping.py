"""ioping, wrapped: latency of single requests, and requests one after another, cached or direct, as the studies ran it.

Each pattern runs twice: once with statistics ten times a second, for the rate, and once with a line for every
request, for the quantiles; writing that line takes longer than a cached request and would halve its rate.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from tare.worker import page_cache
from tare.worker.counters import device_read_bytes, increase
from tare.worker.request import Request, declared
from tare.worker.task import Check, Task
from tare.workloads import file_evidence as evidence
from tare.workloads import ioping_output, tool, written_file
from tare.workloads.declaration import LOCATION, Factor, Metric, Workload
from tare.workloads.hpc_software import debian_packages
from tare.workloads.samples import sample, steady

PACKAGES = ("ioping",)
#: the study's working set: ioping's own default for rapid tests
FILE_BYTES = 64 << 20
INTERVAL_SECONDS = 0.1
#: pause between the requests of `io-latency`: the device is idle before each
PAUSE = "50ms"
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0)


class Pattern(NamedTuple):
    """What ioping does: its options, request size in bytes, and the state of the page cache it claims."""

    options: Tuple[str, ...]
    request_bytes: int
    cache: str  # cached | direct | evicted


PATTERNS = {
    "io-latency": Pattern((), 4096, "evicted"),
    "io-cached-random": Pattern(("-C", "-R"), 4096, "cached"),
    "io-cached-sequential": Pattern(("-C", "-R", "-L"), 256 << 10, "cached"),
    "io-direct-random": Pattern(("-D", "-R"), 4096, "direct"),
    "io-direct-sequential": Pattern(("-D", "-R", "-L"), 256 << 10, "direct"),
}
_SECONDS = Factor(1, (), "how long each of the two passes lasts, in seconds (rate; quantiles)")
_P50 = Metric("request_seconds_p50", "steady", "s", True, "request, median")
_P99 = Metric("request_seconds_p99", "steady", "s", True, "request, 99th percentile")
_LATENCY = Workload(
    name="io-latency",
    title="ioping: one request at a time",
    stack="hpc",
    adapter=__name__,
    factors={
        "location": LOCATION,
        "requests": Factor(20, (), "how many requests are timed; the studies made 10"),
    },
    metrics=(Metric("request_seconds", "steady", "s", True, "read of 4 KiB"),),
    layer="files",
    expected_seconds=3.0,
)


def _rapid(name: str, title: str, rate: Metric) -> Workload:
    factors = {"location": LOCATION, "seconds": _SECONDS}
    metrics = (rate, _P50, _P99)
    return Workload(name, title, "hpc", __name__, factors, metrics, layer="files", expected_seconds=4.0)


_REQUESTS = Metric("requests_per_second", "steady", "request/s", False, "requests of 4 KiB")
_BYTES = Metric("bytes_per_second", "steady", "B/s", False, "requests of 256 KiB")

WORKLOADS: Tuple[Workload, ...] = (
    _LATENCY,
    _rapid("io-cached-random", "ioping: cached, random", _REQUESTS),
    _rapid("io-cached-sequential", "ioping: cached, sequential", _BYTES),
    _rapid("io-direct-random", "ioping: direct, random", _REQUESTS),
    _rapid("io-direct-sequential", "ioping: direct, sequential", _BYTES),
)


class IoPing(Task):
    """One run of a pattern."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.workload, self.factors = request.workload, request.factors
        self.pattern, self.rate_metric = PATTERNS[request.workload], declared(request).metrics[0]
        self.folder = request.files
        self.path = os.path.join(request.files, "ioping.data")
        self.program = tool.find("ioping", "ioping")
        # 0 would let ioping choose; any other seed gives the same offsets in every runtime.
        self.seed = request.seed % (2**31 - 1) + 1
        self.said: List[tool.Said] = []
        self.shares: Dict[str, float] = {}
        self.device: Optional[int] = None
        self.rates: List[float] = []
        self.times: List[int] = []
        self.requests = 0
        written_file.create(self.path, FILE_BYTES)

    def commands(self) -> List[List[str]]:
        """Return the command lines of the run."""
        common = [
            "-S",
            str(FILE_BYTES),
            "-s",
            str(self.pattern.request_bytes),
            "-e",
            str(self.seed),
            self.path,
        ]
        if "requests" in self.factors:
            # One more: ioping does not count its first.
            count = str(int(self.factors["requests"]) + 1)
            return [[self.program, "-J", "-c", count, "-i", PAUSE, *common]]
        start = [self.program, "-B", *self.pattern.options, "-w", str(self.factors["seconds"])]
        return [[*start, "-P", str(INTERVAL_SECONDS), *common], [*start, "-p", "1", *common]]

    def steps(self, epoch: int) -> Iterator[None]:
        """Set the page cache, run ioping, look at the page cache again."""
        setter = written_file.cache_in if self.pattern.cache == "cached" else written_file.cache_out
        self.shares["before"] = setter(self.path)
        before = device_read_bytes()
        self.said = [tool.run(command, self.folder) for command in self.commands()]
        self.device = increase(before, device_read_bytes())
        self.shares["after"] = page_cache.resident_share(self.path)
        if not self._exits():
            self._read()
        yield

    def _exits(self) -> List[str]:
        return [reason for said in self.said for reason in tool.exit_reasons("ioping", said)]

    def _read(self) -> None:
        if self.workload == "io-latency":
            self.times = ioping_output.json_times(self.said[0].stdout)
            self.requests = len(self.times) + 1
            return
        lines, single = (ioping_output.raw_lines(said.stdout) for said in self.said)
        self.rates = ioping_output.rates(lines, INTERVAL_SECONDS)
        self.times = ioping_output.request_times(single)
        self.requests = lines[-1].total + single[-1].total

    def samples(self) -> List[Dict[str, Any]]:
        """Return every request's time, or the rates of the intervals and two quantiles of all requests."""
        if self.workload == "io-latency":
            return steady("request_seconds", "s", [time * 1e-9 for time in self.times])
        if not self.times:
            return []
        rate = self.rate_metric
        scale = self.pattern.request_bytes if rate.unit == "B/s" else 1
        ordered = sorted(self.times)
        return [
            *steady(rate.name, rate.unit, [value * scale for value in self.rates]),
            *(
                sample(metric.name, "s", evidence.quantile(ordered, share) * 1e-9)
                for metric, share in ((_P50, 0.5), (_P99, 0.99))
            ),
        ]

    def check(self) -> Check:
        """Return whether the state of the page cache was what the pattern claims, and the numbers can be right."""
        memory = evidence.memory_bandwidth()
        reasons = self._exits() or self._number_reasons(memory)
        reasons += written_file.sparse_reasons(self.path, FILE_BYTES) + self._cache_reasons()
        os.unlink(self.path)
        ordered = sorted(self.times)
        facts = {
            "work": {
                "file_bytes": FILE_BYTES,
                "request_bytes": self.pattern.request_bytes,
                "settings": list(self.pattern.options),
                **{name: level for name, level in self.factors.items() if name != "location"},
            },
            "requests": self.requests,
            "device_read_bytes": self.device,
            "resident": self.shares,
            "memory_bytes_per_second": memory,
            "quantiles_ns": {"%g" % q: evidence.quantile(ordered, q) for q in QUANTILES} if ordered else {},
        }
        return Check(reasons, facts)

    def _number_reasons(self, memory: float) -> List[str]:
        if self.workload == "io-latency":
            missing = int(self.factors["requests"]) - len(self.times)
            return (
                ["ioping timed %d requests fewer than asked for" % missing]
                if missing
                else evidence.zero_reasons(min(self.times))
            )
        fastest = max(self.rates, default=0.0) * self.pattern.request_bytes
        return evidence.latency_reasons(self.times) + evidence.bandwidth_reasons(fastest, memory)

    def _cache_reasons(self) -> List[str]:
        used = self.requests * self.pattern.request_bytes
        before, after = self.shares["before"], self.shares["after"]
        if self.pattern.cache == "cached":
            return evidence.cached_reasons(before, after, self.device, used)
        reasons = evidence.evicted_reasons(before) + evidence.device_reasons("read", self.device, used)
        if self.pattern.cache == "direct":
            reasons += evidence.evicted_reasons(after, "after reads that are said to be direct")
        return reasons

    def software(self) -> Dict[str, Any]:
        """Return package and command, without the path of this run."""
        return {
            "packages": debian_packages(PACKAGES),
            "commands": [["ioping", *command[1:-1], "<file>"] for command in self.commands()],
        }

    def libraries(self) -> List[str]:
        """Return what the loader maps for ioping."""
        return tool.libraries(self.program)


def set_up(request: Request) -> IoPing:
    """Return the run that ``request`` names, its test file written; raises ``WrittenFileError``, ``ToolError``."""
    return IoPing(request)
