"""STREAM: bandwidth of memory, with arrays much larger than the caches; our own program, by STREAM's rules.

Rules: J. D. McCalpin, STREAM: each array at least four times the last-level caches together; the first repetition
does not count; bytes are those the loops name, not what the caches read beside them; results are checked.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from tare.worker.caches import last_level_bytes
from tare.worker.cpus import effective_cpus
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import native
from tare.workloads.declaration import Factor, Level, Metric, Workload
from tare.workloads.samples import rates, steady, time_reasons
from tare.workloads.threads import thread_reasons

PROGRAM = "stream"
KERNELS = ("copy", "scale", "add", "triad")
#: one more is run first; STREAM itself runs ten with the first left out
REPETITIONS = 15
ARRAYS = 3
CACHE_FACTOR = 4
#: share of the memory that the arrays may fill
LARGEST_SHARE = 0.80
SMALLEST = 1 << 20
#: relative deviation of an element at the end; rounding alone gives some units of 1e-16 a repetition
TOLERANCE = 1e-13
NANOSECOND = 1e-9

WORKLOADS = (
    Workload(
        name="stream",
        title="STREAM: memory bandwidth",
        stack="hpc",
        adapter=__name__,
        factors={
            "bytes": Factor(
                "quick",
                ("quick",),
                "size of each of the three arrays: quick (4 × the last-level caches), or a number from there on",
                numbers=True,
            ),
        },
        metrics=tuple(
            Metric("stream_" + kernel, "steady", "B/s", False, "STREAM %s" % kernel)
            for kernel in reversed(KERNELS)
        ),
        layer="memory",
        expected_seconds=2.0,
        native=PROGRAM,
    ),
)


class SizeError(ValueError):
    """Arrays that do not fit here, or that the caches would hold; the message says what is possible."""


def array_bytes(level: Level, cache_bytes: int, memory_bytes: int) -> int:
    """Return the size of an array for factor ``bytes``, a multiple of 1 MiB; raises ``SizeError``."""
    least = -(-CACHE_FACTOR * cache_bytes // SMALLEST) * SMALLEST
    most = int(LARGEST_SHARE * memory_bytes) // ARRAYS // SMALLEST * SMALLEST
    chosen = least if level == "quick" else int(level) // SMALLEST * SMALLEST
    if not least <= chosen <= most:
        raise SizeError(
            "bytes: arrays of %d bytes cannot be measured; with caches of %d bytes and %d bytes of memory "
            "%d … %d is possible; give the run more memory or fewer CPUs"
            % (chosen, cache_bytes, memory_bytes, least, most)
        )
    return chosen


class Stream(Task):
    """One run of the program, which times itself."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cache_bytes = last_level_bytes()
        self.bytes = array_bytes(request.factors["bytes"], self.cache_bytes, request.memory_bytes)
        self.program = native.software(PROGRAM, request)
        self.result: Dict[str, Any] = {}

    def steps(self, epoch: int) -> Iterator[None]:
        """Run the program once."""
        arguments = {
            "bytes": self.bytes,
            "threads": self.request.threads,
            "repetitions": REPETITIONS + 1,
        }
        self.result = native.run(self.request, PROGRAM, arguments)
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return the bandwidth of each repetition but the first, for each kernel."""
        return [
            sample for kernel in KERNELS for sample in steady("stream_" + kernel, "B/s", self._rates(kernel))
        ]

    def check(self) -> Check:
        """Return whether every element has the value it must have, and the times are long enough to be one."""
        tick, worst = self.result["granularity_ns"] * NANOSECOND, self._worst()
        reasons = thread_reasons(self.request.threads, effective_cpus())
        if not worst <= TOLERANCE:
            reasons.append(
                "stream: an element differs by %.3g from its value, at most %.0e: memory or program is faulty"
                % (worst, TOLERANCE)
            )
        for kernel in KERNELS:
            reasons += time_reasons("stream " + kernel, self._seconds(kernel), REPETITIONS, 1, tick)
        facts = {
            "work": {
                "array_bytes": self.result["array_bytes"],
                "repetitions": REPETITIONS,
                "threads": self.result["threads"],
                "isa": self.result["isa"],
                "stores": self.result["stores"],
            },
            "cache_bytes": self.cache_bytes,
            "tick_seconds": tick,
            "largest_error": worst,
            # STREAM's own figure: the best repetition, which is what its published tables hold
            "best": {kernel: max(self._rates(kernel), default=None) for kernel in KERNELS},
        }
        return Check(reasons, facts)

    def software(self) -> Dict[str, Any]:
        """Return the program's identity."""
        return self.program

    def _seconds(self, kernel: str) -> List[float]:
        return [ns * NANOSECOND for ns in self.result["kernels"][kernel]["ns"][1:]]

    def _rates(self, kernel: str) -> List[float]:
        return rates(self.result["kernels"][kernel]["bytes"], self._seconds(kernel))

    def _worst(self) -> float:
        errors = [float("nan") if error is None else error for error in self.result["errors"]]
        return max(errors) if all(error == error for error in errors) else float("nan")


def set_up(request: Request) -> Stream:
    """Return the run that ``request`` names; raises ``SizeError`` for arrays that cannot be."""
    return Stream(request)
