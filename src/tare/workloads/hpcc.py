"""HPC Challenge, wrapped: one rank a thread, each rank single-threaded; hpcc times its parts itself."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from typing import Any, Dict, Iterator, List, Optional

from tare.worker.process_facts import shared_memory
from tare.worker.request import Request
from tare.worker.task import Check, Task
from tare.workloads import hpcc_files, mpi, tool
from tare.workloads.declaration import Factor, Metric, Workload
from tare.workloads.hpc_software import debian_packages, openblas

PACKAGES = ("hpcc", "openmpi-bin", "libopenmpi3", "libopenblas0-pthread")

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


class HpccError(RuntimeError):
    """hpcc cannot be run here; the message names what is missing and the fix."""


class Hpcc(Task):
    """One run of hpcc."""

    epochs = 1
    timed = False

    def __init__(self, request: Request) -> None:
        self.output, self.ranks = request.output, request.threads
        self.full = request.factors["n"] == "full"
        self.problem = hpcc_files.problem(request.factors["n"], self.ranks, request.memory_bytes)
        self.variables = mpi.environment(self.output, os.getuid())
        self.programs = {name: self._find(name) for name in ("mpirun", "hpcc")}
        mpi.check_shared_memory(self.ranks, shared_memory()["free_bytes"])
        self.status: Optional[int] = None
        os.makedirs(self.variables["TMPDIR"], exist_ok=True)
        self._write("hpccinf.txt", hpcc_files.input_text(self.problem))

    def _find(self, name: str) -> str:
        path = shutil.which(name, path=self.variables["PATH"])
        if path is None:
            raise HpccError("%s is not installed; install the packages %s" % (name, ", ".join(PACKAGES)))
        return path

    def command(self) -> List[str]:
        """Return the command line of the run."""
        return [self.programs["mpirun"], *mpi.placement(self.ranks), self.programs["hpcc"]]

    def steps(self, epoch: int) -> Iterator[None]:
        """Run hpcc once."""
        with open(self._path("hpcc.stdout"), "wb") as out, open(self._path("hpcc.stderr"), "wb") as err:
            self.status = subprocess.run(
                self.command(),
                cwd=self.output,
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                check=False,
            ).returncode
        yield

    def samples(self) -> List[Dict[str, Any]]:
        """Return hpcc's figures in SI units."""
        return hpcc_files.samples(self._read("hpccoutf.txt"), self.ranks)

    def check(self) -> Check:
        """Return whether hpcc and MPI say that all went well."""
        text, stderr = self._read("hpccoutf.txt"), self._read("hpcc.stderr")
        ratio = hpcc_files.hpl_over_dgemm(text, self.ranks)
        reasons = (
            [] if self.status == 0 else ["mpirun ended with status %s: %s" % (self.status, _tail(stderr))]
        )
        reasons += hpcc_files.output_reasons(text, self.problem) + mpi.stderr_reasons(stderr)
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

    def software(self) -> Dict[str, Any]:
        """Return packages, command, environment of the ranks, BLAS kernel and bindings; no path of this run."""
        stderr = self._read("hpcc.stderr")
        values = hpcc_files.summary(self._read("hpccoutf.txt"))
        return {
            "hpcc": ".".join(values.get("Version" + part, "?") for part in ("Major", "Minor", "Micro")),
            "packages": debian_packages(PACKAGES),
            "command": self.command(),
            "variables": {
                key: value.replace(self.output, "<output>") for key, value in self.variables.items()
            },
            "openblas": openblas(),
            "openblas_cores": sorted(set(re.findall(r"^Core: (\S+)", stderr, re.MULTILINE))),
            "bindings": mpi.bindings(stderr),
        }

    def libraries(self) -> List[str]:
        """Return what the loader maps for hpcc."""
        return tool.libraries(self.programs["hpcc"], self.variables)

    def _path(self, name: str) -> str:
        return os.path.join(self.output, name)

    def _write(self, name: str, text: str) -> None:
        with open(self._path(name), "w", encoding="ascii") as file:
            file.write(text)

    def _read(self, name: str) -> str:
        try:
            with open(self._path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def set_up(request: Request) -> Hpcc:
    """Return the run that ``request`` names, its input file written."""
    return Hpcc(request)


def _tail(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-300:]
