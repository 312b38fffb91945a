"""The HPCG algorithm, our own program: conjugate gradients with a multigrid preconditioner on a sparse matrix.

The program computes, times each set of 50 iterations and says what its tests found; here the size is chosen and
what was found is judged. What is measured, and how it compares with the official benchmark: docs/workloads/hpcg.md.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, NamedTuple

from tare.worker.caches import last_level_bytes
from tare.worker.cpus import effective_cpus
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import native, samples
from tare.workloads.declaration import Factor, Level, Metric, Workload

PROGRAM = "hpcg"

WORKLOADS = (
    Workload(
        name="hpcg",
        title="HPCG algorithm",
        stack="hpc",
        adapter=__name__,
        factors={
            "n": Factor(
                "quick",
                ("quick", "full"),
                "grid points in each direction: quick (4 × last-level cache, seconds), full (a quarter of the memory, "
                "minutes), or a multiple of 8 from 16 on",
                numbers=True,
            ),
        },
        metrics=(Metric("hpcg_flops", "steady", "flop/s", False, "HPCG algorithm"),),
        layer="compute",
        expected_seconds=3.5,
        native=PROGRAM,
    ),
)

ITERATIONS = 50
STEP, SMALLEST = 8, 16
#: the program's columns are 32-bit
LARGEST_ROWS = 2**31 - 1
#: the working set is at least so many times the last-level caches; STREAM's rule for each array of triad, too
CACHE_FACTOR = 4
#: share of the memory that `full` fills at least (HPCG's own rule), and the largest share that is accepted
FULL_SHARE, LARGEST_SHARE = 0.25, 0.80
#: timed sets: what it takes to see that they repeat each other
SETS = 2
#: the benchmark's own limits: departure from symmetry in units of rounding, and iterations of the spectral test
ASYMMETRY, SPECTRAL_PLAIN, SPECTRAL_PRECONDITIONED = 1.0, 12, 2
#: from the plain preconditioner, relative: the same operations in another order of summation
PRECONDITIONER_DIFFERENCE = 1e-12
#: between the residual of the recurrence and b - A x, relative to b; and the residual after a set
RESIDUAL_DIFFERENCE, RESIDUAL = 1e-10, 0.1
#: traffic over the triad's, which counts 24 bytes where up to 32 are moved: beyond it a cache must have helped
STREAM_SHARE = 2.0


class HpcgError(ValueError):
    """A problem that is not to be run here; the message names the entry, what is allowed and the fix."""


class Problem(NamedTuple):
    """A cubic grid of ``n`` points in each direction, solved ``sets`` times; ``reference``: plain solver beside it."""

    n: int
    sets: int
    reference: int


def working_set(n: int) -> int:
    """Return the bytes of all arrays of the program for a grid of ``n``³: four levels, each half as wide."""
    total = 6 * 8 * n**3  # b, x, r, z, p, q
    for level in range(4):
        width = n >> level
        rows = width**3
        total += rows * (2 * 13 * 12 + 16)  # values and columns on either side, diagonal and its inverse
        total += rows * ((8 if level < 3 else 0) + (4 + 16 if level > 0 else 0))  # products; transfer vectors
        total += width * (8 * width + 64)  # the order of sweeps
    return total


def smallest_grid(size: float) -> int:
    """Return the smallest allowed ``n`` whose working set has at least ``size`` bytes."""
    n = SMALLEST
    while working_set(n) < size:
        n += STEP
    return n


def problem(level: Level, memory_bytes: int, cache_bytes: int) -> Problem:
    """Return the problem of factor ``n``; raises ``HpcgError``.

    ``memory_bytes``: what the run may use; ``cache_bytes``: all last-level caches it can fill.
    """
    beyond_cache = smallest_grid(CACHE_FACTOR * cache_bytes)
    if level == "full":
        n = max(beyond_cache, smallest_grid(FULL_SHARE * memory_bytes))
    else:
        n = beyond_cache if level == "quick" else _number(level)
    if n < beyond_cache:
        raise HpcgError(
            "n: %d has a working set of %d bytes, less than %d × the last-level cache (%d bytes); use n=%d or more"
            % (n, working_set(n), CACHE_FACTOR, cache_bytes, beyond_cache)
        )
    needed = max(working_set(n), 3 * CACHE_FACTOR * cache_bytes)
    if needed > LARGEST_SHARE * memory_bytes or n**3 > LARGEST_ROWS:
        raise HpcgError(
            "n: %d needs %d bytes; %d %% of the %d bytes of memory and 2^31 - 1 rows are the limit; "
            "give the run more memory or use a smaller n (from %d on)"
            % (n, needed, round(100 * LARGEST_SHARE), memory_bytes, beyond_cache)
        )
    return Problem(n, SETS, int(level == "full"))


def _number(level: Level) -> int:
    n = int(level)
    if n < SMALLEST or n % STEP != 0:
        raise HpcgError(
            "n: %d is not allowed: a grid is halved three times; use a multiple of %d, at least %d, e.g. %d"
            % (n, STEP, SMALLEST, max(SMALLEST, math.ceil(n / STEP) * STEP))
        )
    return n


class Hpcg(Task):
    """One run of the program, which times itself."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        if request.threads > effective_cpus():
            raise HpcgError(
                "threads: %d is more than the %d effective CPUs (affinity and quota); use fewer"
                % (request.threads, effective_cpus())
            )
        self.request = request
        self.cache_bytes = last_level_bytes()
        self.problem = problem(request.factors["n"], request.memory_bytes, self.cache_bytes)
        self.found: Dict[str, Any] = {}

    def arguments(self) -> Dict[str, native.Value]:
        """Return the program's arguments."""
        n = self.problem.n
        return {
            **{"nx": n, "ny": n, "nz": n, "sets": self.problem.sets, "threads": self.request.threads},
            **{"reference": self.problem.reference, "triad-bytes": CACHE_FACTOR * self.cache_bytes},
        }

    def steps(self, epoch: int) -> Iterator[None]:
        """Run the program once: set-up, tests, timed sets."""
        self.found = native.run(self.request, PROGRAM, self.arguments())
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return one rate for each set."""
        return samples.steady("hpcg_flops", "flop/s", rates(self.found))

    def check(self) -> Check:
        """Return whether all tests hold, and what was computed."""
        return Check(
            output_reasons(self.found, self.problem, self.request.threads, self.cache_bytes), self.facts()
        )

    def facts(self) -> Dict[str, Any]:
        """Return the work done (``work``: equal wherever it is done) and what was found beside it."""
        found = self.found
        names = (
            "nx",
            "ny",
            "nz",
            "threads",
            "iterations",
            "iterations_charged",
            "nonzeros",
            "working_set_bytes",
        )
        return {
            "work": {
                **{name: found[name] for name in names},
                "sets": self.problem.sets,
                # bit by bit: neither the number of threads nor the runtime may change it
                "residual_hex": float(found["residuals"][0]).hex(),
            },
            "residual": found["residuals"][0],
            "largest_error": found["largest_error"],
            "reference_residual": found["reference_residual"],
            "cache_bytes": self.cache_bytes,
            "isa": found["isa"],
            "triad_bytes_per_second": found["triad_bytes_per_second"],
            "stream_share": stream_share(found),
            "label": "full size, not official" if self.problem.reference else "quick, not official",
        }

    def software(self) -> Dict[str, Any]:
        """Return what was run: program and instruction set."""
        return {**native.software(PROGRAM, self.request), "isa": self.found["isa"]}


def set_up(request: Request) -> Hpcg:
    """Return the run that ``request`` names; raises ``HpcgError``."""
    return Hpcg(request)


def rates(found: Dict[str, Any]) -> List[float]:
    """Return the operations per second of each set: those of 50 iterations, over the time of all that were needed."""
    return samples.rates(found["flops_per_set"], found["seconds"])


def stream_share(found: Dict[str, Any]) -> float:
    """Return the traffic of the fastest set over that of STREAM's triad in the same process.

    The model of the traffic: each loop moves once every matrix row it passes (26 values of 8 bytes, 26 columns of 4,
    8 for the diagonal; half of it in the sweep that starts from zero) and every element of its vectors (8 bytes a
    read and a write): per row 320 + 16 for A·x, 320 + 24 for a sweep, 164 + 16 for the one from zero, 16 for a dot
    product of its own, 24 for p, 48 for x and r together; on all four levels, with the transfers between them.
    """
    traffic: float = found["bytes_per_set"] / min(found["seconds"])
    return traffic / float(found["triad_bytes_per_second"])


def output_reasons(found: Dict[str, Any], expected: Problem, threads: int, cache_bytes: int) -> List[str]:
    """Return what makes a result invalid, one sentence each; empty for a valid one."""
    asked = {
        "nx": expected.n,
        "ny": expected.n,
        "nz": expected.n,
        "threads": threads,
        "iterations": ITERATIONS,
    }
    reasons = [
        "hpcg: %s=%s was run, %s was asked for; use the program of the same Tare" % (name, found[name], value)
        for name, value in asked.items()
        if found[name] != value
    ]
    if len(found["seconds"]) != expected.sets or not all(seconds > 0 for seconds in found["seconds"]):
        reasons.append("hpcg: %d sets were asked for, the times are %s s" % (expected.sets, found["seconds"]))
        return reasons
    if found["working_set_bytes"] < CACHE_FACTOR * cache_bytes:
        reasons.append(
            "hpcg: the working set of %d bytes is below %d × the last-level cache (%d bytes); use a larger n"
            % (found["working_set_bytes"], CACHE_FACTOR, cache_bytes)
        )
    if not stream_share(found) <= STREAM_SHARE:
        reasons.append(
            "hpcg: its traffic is %.2f times that of STREAM's triad, at most %.1f is possible from memory; use a "
            "larger n" % (stream_share(found), STREAM_SHARE)
        )
    return reasons + _test_reasons(found) + _residual_reasons(found)


def _test_reasons(found: Dict[str, Any]) -> List[str]:
    limits = (
        ("matrix_asymmetry", ASYMMETRY, "departure from symmetry of the matrix"),
        ("preconditioner_asymmetry", ASYMMETRY, "departure from symmetry of the preconditioner"),
        ("preconditioner_difference", PRECONDITIONER_DIFFERENCE, "difference from the plain preconditioner"),
        (
            "spectral_iterations_plain",
            SPECTRAL_PLAIN,
            "iterations of the spectral test without preconditioner",
        ),
        (
            "spectral_iterations_preconditioned",
            SPECTRAL_PRECONDITIONED,
            "iterations of the spectral test with preconditioner",
        ),
    )
    return [
        "hpcg: %s is %s, at most %g is valid; this CPU or this build computes wrongly"
        % (what, found[name], limit)
        for name, limit, what in limits
        if found[name] is None or not found[name] <= limit
    ]


def _residual_reasons(found: Dict[str, Any]) -> List[str]:
    residuals, true = found["residuals"], found["true_residual"]
    if any(value is None for value in (*residuals, true)):
        return ["hpcg: a residual is no finite number: %s, true: %s" % (residuals, true)]
    reasons = []
    if len(set(residuals)) != 1:
        reasons.append("hpcg: the residuals of the sets differ: %s; they must agree bit by bit" % residuals)
    if not residuals[-1] <= RESIDUAL:
        reasons.append("hpcg: the residual fell to %g only, %g is the limit" % (residuals[-1], RESIDUAL))
    if not abs(true - residuals[-1]) <= RESIDUAL_DIFFERENCE:
        reasons.append(
            "hpcg: b - A x is %g, the recurrence says %g; they may differ by %g"
            % (true, residuals[-1], RESIDUAL_DIFFERENCE)
        )
    return reasons
