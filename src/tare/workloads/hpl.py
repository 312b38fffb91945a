"""HPL, the dense linear solver of the TOP500 list: the one that Debian's hpcc contains, and nothing else of hpcc.

N follows from factor and memory, the process grid from the ranks; input file and grid are hpcc's (``hpcc_files``).
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple

from tare.worker.request import Request
from tare.worker.task import Check
from tare.workloads import hpcc_files, hpcc_gate
from tare.workloads.declaration import Factor, Metric, Workload
from tare.workloads.hpcc_files import DOUBLE, NB, Problem
from tare.workloads.hpcc_run import INPUT, OUTPUT, HpccRun
from tare.workloads.samples import sample

#: blocks of the quick matrix for one rank; more ranks get as many blocks each
QUICK_BLOCKS = 15
#: fewer blocks than this for one rank: start, exchange and ends of the pipeline outweigh the work
SMALL_BLOCKS = 10
#: solves of one problem in a run, by the operations of one; the first touches the memory and is kept apart
SOLVES = ((3e11, 6), (2e12, 3))
GIGA = 1e9

WORKLOADS = (
    Workload(
        name="hpl",
        title="HPL: dense linear system",
        stack="hpc",
        adapter=__name__,
        factors={
            "n": Factor(
                "quick",
                ("quick", "full"),
                "order of the matrix: quick (a quarter of a second a solve), full (70 % of memory), or a number from "
                "192 on; numbers up to 1920 · √ranks are mostly start-up and become a metric of their own",
                numbers=True,
            ),
        },
        metrics=(
            Metric("hpl_flops", "steady", "flop/s", False, "HPL", optional=True),
            Metric("hpl_small_flops", "steady", "flop/s", False, "HPL, start-up dominated", optional=True),
        ),
        layer="compute",
        expected_seconds=4.0,
    ),
)


class Solve(NamedTuple):
    """One line of HPL's table: the problem as HPL states it, and its rate in flop/s (printed with four digits)."""

    problem: Problem
    flops: float


def quick_n(ranks: int) -> int:
    """Return N of the level ``quick``: the same memory a rank, whatever their number."""
    return round(QUICK_BLOCKS * math.sqrt(ranks)) * NB


def is_small(n: int, ranks: int) -> bool:
    """Return whether a solve is mostly start-up: fewer than ten blocks in each direction of a rank's part."""
    return n < SMALL_BLOCKS * NB * math.sqrt(ranks)


def solves(n: int) -> int:
    """Return how often a problem is solved in one run, by the operations of one solve (2/3 n³)."""
    return next((count for most, count in SOLVES if 2 / 3 * n**3 <= most), 1)


def solved(text: str) -> List[Solve]:
    """Return the solves that HPL's table lists, in their order."""
    rows = re.findall(r"^W\S+ +(\d+) +(\d+) +(\d+) +(\d+) +[\d.]+ +(\S+)$", text, re.MULTILINE)
    return [Solve(Problem(*map(int, row[:4])), float(row[4]) * GIGA) for row in rows]


def output_reasons(text: str, expected: Problem, count: int) -> List[str]:
    """Return what makes an output invalid: no end, other problems than asked for, a residual that did not pass."""
    part = hpcc_files.section(text, "HPL")
    if not part:
        return ["hpl: hpccoutf.txt has no complete HPL section: the run did not come to its end"]
    reasons = [
        "hpl: %s; give the run more memory, or a smaller n" % line.strip()
        for line in re.findall(r"^.*Memory allocation failed.*$", part, re.MULTILINE)[:1]
    ]
    found = solved(part)
    passed = len(hpcc_files.RESIDUAL_PASSED.findall(part))
    if len(found) != count:
        reasons.append("hpl: %d solves in the output, %d were asked for" % (len(found), count))
    reasons += [
        "hpl: N, NB, P, Q were %s, %s were asked for" % (tuple(one.problem), tuple(expected))
        for one in found
        if one.problem != expected
    ][:1]
    if passed != count:
        reasons.append("hpl: the residual of %d solves passed, of %d it must" % (passed, count))
    if not all(one.flops > 0 and math.isfinite(one.flops) for one in found):
        reasons.append("hpl: a rate of 0 or none is no number")
    return reasons


class Hpl(HpccRun):
    """One run of hpcc in which HPL solves one problem several times."""

    def __init__(self, request: Request) -> None:
        level, ranks = request.factors["n"], request.threads
        problem = hpcc_files.problem(level, ranks, request.memory_bytes, quick_n(ranks))
        self.count = solves(problem.n)
        super().__init__(request, problem, hpcc_files.input_text(problem, self.count))
        self.alone = hpcc_gate.possible(DOUBLE * problem.n**2 // ranks)
        self.small = is_small(problem.n, ranks)

    def steps(self, epoch: int) -> Iterator[None]:
        """Run hpcc once, its other parts left out where that can be done."""
        if not self.alone:
            yield from super().steps(epoch)
            return
        gate = hpcc_gate.Gate(self.output, INPUT, self.ranks)
        mpirun = self.start()
        try:
            gate.hold(mpirun, self.text)
        except BaseException:
            mpirun.terminate()
            mpirun.wait()
            raise
        finally:
            os.unlink(self.path(INPUT))
        self.status = mpirun.wait()
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return the rate of each solve; the first of several, which also touches the memory, as phase ``first``."""
        metric = "hpl_small_flops" if self.small else "hpl_flops"
        rates = [one.flops for one in solved(hpcc_files.section(self.read(OUTPUT), "HPL"))]
        phases = ["steady" if self.count == 1 or index else "first" for index in range(len(rates))]
        return [
            sample(metric, "flop/s", rate, index, phase)
            for index, (phase, rate) in enumerate(zip(phases, rates))
            if rate > 0
        ]

    def check(self) -> Check:
        """Return whether HPL and MPI say that all went well."""
        reasons = self.run_reasons() + output_reasons(self.read(OUTPUT), self.problem, self.count)
        work = {**self.problem._asdict(), "ranks": self.ranks, "solves": self.count, "alone": self.alone}
        return Check(reasons, {"work": work, "small": self.small})


def set_up(request: Request) -> Hpl:
    """Return the run that ``request`` names; raises ``SizeError`` for a matrix that does not fit."""
    return Hpl(request)
