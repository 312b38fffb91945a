"""What every run of Debian's hpcc has in common: one rank a thread under mpirun, its files in the run's folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any, Dict, Iterator, List, Optional

from tare.worker.cpus import effective_cpus
from tare.worker.process_facts import shared_memory
from tare.worker.request import Request
from tare.worker.task import Task
from tare.workloads import hpcc_files, mpi, tool
from tare.workloads.hpc_software import debian_packages, openblas
from tare.workloads.hpcc_files import Problem
from tare.workloads.last_words import last_words
from tare.workloads.threads import thread_reasons

PACKAGES = ("hpcc", "openmpi-bin", "libopenmpi3", "libopenblas0-pthread")
INPUT, OUTPUT, STDOUT, STDERR = "hpccinf.txt", "hpccoutf.txt", "hpcc.stdout", "hpcc.stderr"


class HpccError(RuntimeError):
    """hpcc cannot be run here; the message names what is missing and the fix."""


class HpccRun(Task):
    """One run of hpcc; a workload says which problem, what its numbers are and what makes them valid."""

    epochs = 1
    timed = False

    def __init__(self, request: Request, problem: Problem, text: str) -> None:
        """``text``: the input file."""
        self.output, self.ranks = request.output, request.threads
        self.problem, self.text = problem, text
        self.variables = mpi.environment(self.output, os.getuid())
        self.programs = {name: self._find(name) for name in ("mpirun", "hpcc")}
        mpi.check_shared_memory(self.ranks, shared_memory()["free_bytes"])
        self.status: Optional[int] = None
        os.makedirs(self.variables["TMPDIR"], exist_ok=True)

    def _find(self, name: str) -> str:
        path = shutil.which(name, path=self.variables["PATH"])
        if path is None:
            raise HpccError("%s is not installed; install the packages %s" % (name, ", ".join(PACKAGES)))
        return path

    def command(self) -> List[str]:
        """Return the command line of the run."""
        return [self.programs["mpirun"], *mpi.placement(self.ranks), self.programs["hpcc"]]

    def start(self) -> "subprocess.Popen[bytes]":
        """Start mpirun in the output folder; what it says goes to files there."""
        with open(self.path(STDOUT), "wb") as out, open(self.path(STDERR), "wb") as err:
            return subprocess.Popen(
                self.command(),
                cwd=self.output,
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def steps(self, epoch: int) -> Iterator[None]:
        """Run hpcc once."""
        with open(self.path(INPUT), "w", encoding="ascii") as file:
            file.write(self.text)
        self.status = self.start().wait()
        yield

    def run_reasons(self) -> List[str]:
        """Return what makes any run of hpcc invalid: mpirun's end, MPI's errors, ranks that take turns."""
        stderr = self.read(STDERR)
        reasons = thread_reasons(self.ranks, effective_cpus(), "ranks")
        if self.status != 0:
            reasons.append("mpirun ended with status %s: %s" % (self.status, last_words(stderr)))
        return reasons + mpi.stderr_reasons(stderr)

    def software(self) -> Dict[str, Any]:
        """Return packages, command, environment of the ranks, BLAS kernel and bindings; no path of this run."""
        stderr = self.read(STDERR)
        values = hpcc_files.summary(self.read(OUTPUT))
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

    def path(self, name: str) -> str:
        """Return the path of a file of the run."""
        return os.path.join(self.output, name)

    def read(self, name: str) -> str:
        """Return the text of a file of the run, empty when it is absent."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""
