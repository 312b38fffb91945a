"""HPC Challenge, wrapped: one rank a thread, each rank single-threaded; hpcc times its parts itself."""

from __future__ import annotations

import math
from typing import Any, Dict, List

from tare.worker.request import Request
from tare.worker.task import Check
from tare.workloads import hpcc_files, mpi
from tare.workloads.declaration import Factor, Metric, Workload
from tare.workloads.hpcc_run import OUTPUT, HpccRun

WORKLOADS = (
    Workload(
        name="hpcc",
        title="HPC Challenge",
        stack="hpc",
        adapter=__name__,
        factors={
            "n": Factor(
                "quick",
                ("quick", "full"),
                "HPL problem size: quick (seconds), full (70 % of memory), or a number",
                numbers=True,
            ),
            "single_copy": Factor(
                "none",
                mpi.SINGLE_COPY,
                "how ranks hand over large messages: none (through shared memory, two copies), cma (one copy, out of "
                "the other's memory: invalid where that is forbidden), possible (cma where it is allowed)",
            ),
        },
        metrics=(
            Metric("hpl_flops", "steady", "flop/s", False, "HPL"),
            Metric("dgemm_flops", "steady", "flop/s", False, "DGEMM (star)"),
            Metric("stream_triad", "steady", "B/s", False, "STREAM triad (star)"),
            Metric("fft_flops", "steady", "flop/s", False, "FFT (MPI)"),
            Metric("random_access", "steady", "update/s", False, "RandomAccess (MPI)"),
            Metric("ptrans", "steady", "B/s", False, "PTRANS"),
            Metric("latency", "steady", "s", True, "ping-pong latency"),
        ),
        layer="compute",
        expected_seconds=6.0,
    ),
)


class Hpcc(HpccRun):
    """One run of hpcc, all its parts."""

    def __init__(self, request: Request) -> None:
        problem = hpcc_files.problem(request.factors["n"], request.threads, request.memory_bytes)
        super().__init__(request, problem, hpcc_files.input_text(problem))
        self.variables[mpi.SINGLE_COPY_VARIABLE] = mpi.chosen_single_copy(str(request.factors["single_copy"]))
        self.full = request.factors["n"] == "full"

    def samples(self) -> List[Dict[str, Any]]:
        """Return hpcc's figures in SI units."""
        return hpcc_files.samples(self.read(OUTPUT), self.ranks)

    def check(self) -> Check:
        """Return whether hpcc and MPI say that all went well."""
        text = self.read(OUTPUT)
        ratio = hpcc_files.hpl_over_dgemm(text, self.ranks)
        reasons = self.run_reasons() + hpcc_files.output_reasons(text, self.problem)
        if self.full and not ratio >= hpcc_files.FULL_HPL_OVER_DGEMM:
            reasons.append(
                "HPL reaches %.3f of DGEMM on all ranks; with n=full %.2f is expected: look at memory and bindings"
                % (ratio, hpcc_files.FULL_HPL_OVER_DGEMM)
            )
        facts = {
            **self.problem._asdict(),
            "ranks": self.ranks,
            "hpl_over_dgemm": None if math.isnan(ratio) else ratio,
        }
        return Check(reasons, facts)


def set_up(request: Request) -> Hpcc:
    """Return the run that ``request`` names."""
    return Hpcc(request)
