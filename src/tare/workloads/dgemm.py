"""GEMM by the stack's OpenBLAS: the product of two random matrices, as in training, timed call by call."""

from __future__ import annotations

import random
import time
from array import array
from typing import Any, Dict, Iterator, List

from tare.worker.cpus import effective_cpus
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import gemm
from tare.workloads.declaration import Factor, Level, Metric, Workload
from tare.workloads.hpc_software import debian_packages, openblas
from tare.workloads.samples import rates, steady
from tare.workloads.threads import thread_reasons

PACKAGES = ("libopenblas0-pthread",)
#: order of the quick matrices: 0.2 s a product on two cores, and a multiple of every kernel's block
QUICK_N = 2400
SMALLEST, REPETITIONS = 16, 8
#: share of the memory that the three matrices may fill; the random bits need as much as one again
LARGEST_SHARE, MATRICES = 0.60, 5

WORKLOADS = (
    Workload(
        name="dgemm",
        title="GEMM (OpenBLAS)",
        stack="hpc",
        adapter=__name__,
        factors={
            "n": Factor(
                "quick",
                ("quick",),
                "order of the matrices: quick (2400), or a number from 16 on",
                numbers=True,
            ),
            "precision": Factor("double", tuple(gemm.PRECISIONS), "double or single precision"),
        },
        metrics=(Metric("gemm_flops", "steady", "flop/s", False, "GEMM"),),
        layer="compute",
        expected_seconds=3.0,
    ),
)


class SizeError(ValueError):
    """Matrices that do not fit; the message says what does."""


def order(level: Level, memory_bytes: int, item_bytes: int) -> int:
    """Return the order of the matrices for factor ``n``; raises ``SizeError``."""
    n = QUICK_N if level == "quick" else int(level)
    most = int((LARGEST_SHARE * memory_bytes / MATRICES / item_bytes) ** 0.5)
    if not SMALLEST <= n <= most:
        raise SizeError(
            "n: matrices of order %d cannot be multiplied here; with %d bytes of memory %d … %d is possible"
            % (n, memory_bytes, SMALLEST, most)
        )
    return n


class Dgemm(Task):
    """One run: a first product that is not timed, then one timed product a sample."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.threads = request.threads
        self.blas = gemm.Blas(gemm.PRECISIONS[str(request.factors["precision"])])
        self.c = array(self.blas.precision.code, [0.0])
        self.n = order(request.factors["n"], request.memory_bytes, self.c.itemsize)
        self.generator = random.Random(request.seed)
        self.a, self.b = (self.blas.random(self.generator, self.n * self.n) for _ in range(2))
        self.c *= self.n * self.n
        self.blas.multiply(self.n, self.a, self.b, self.c)
        self.seconds: List[float] = []

    def steps(self, epoch: int) -> Iterator[None]:
        """Multiply, a step each."""
        for _ in range(REPETITIONS):
            before = time.monotonic_ns()
            self.blas.multiply(self.n, self.a, self.b, self.c)
            self.seconds.append((time.monotonic_ns() - before) * 1e-9)
            yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return flop/s of each product: 2 n³ operations over its time."""
        return steady("gemm_flops", "flop/s", rates(2.0 * self.n**3, self.seconds))

    def check(self) -> Check:
        """Return whether the last product is right, and whether the library used the threads asked for."""
        found, used = gemm.deviation(self.blas, self.generator, self.a, self.b, self.c), self.blas.threads()
        reasons = thread_reasons(self.threads, effective_cpus())
        if used != self.threads:
            reasons.append(
                "threads: OpenBLAS works with %d, %d were asked for; it was built for fewer, or OPENBLAS_NUM_THREADS "
                "did not reach it" % (used, self.threads)
            )
        if not found <= gemm.LIMIT:
            reasons.append(
                "gemm: the product differs from a (b r) by %.3g units of rounding, at most %g: memory or kernel is "
                "faulty" % (found, gemm.LIMIT)
            )
        facts = {
            "work": {
                "n": self.n,
                "precision": self.blas.precision.name,
                "threads": used,
                "repetitions": REPETITIONS,
            },
            "deviation": found if found == found else None,
        }
        return Check(reasons, facts)

    def software(self) -> Dict[str, Any]:
        """Return package, build and kernel of the library."""
        return {"packages": debian_packages(PACKAGES), "openblas": openblas()}


def set_up(request: Request) -> Dgemm:
    """Return the run that ``request`` names, matrices filled and multiplied once."""
    return Dgemm(request)
